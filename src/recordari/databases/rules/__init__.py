"""Which statements are read-only and which tables they may read."""
