"""Rules that find patterns, propose changes, and choose a workflow."""
