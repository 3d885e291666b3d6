"""Personal data and secrets, which are masked before anything is stored, and protected sources."""
