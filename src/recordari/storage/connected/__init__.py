"""Databases of the user: read in a process of its own, by one connection that is never used again."""
