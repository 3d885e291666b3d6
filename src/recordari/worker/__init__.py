"""Background work: wakes, claims, runs, shuts down."""
