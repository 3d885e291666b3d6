"""Databases of the user: registered, and asked by a checked, read-only SELECT."""
