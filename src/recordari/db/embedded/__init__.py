"""The embedded PostgreSQL server: its binaries, its data directory, its process."""
