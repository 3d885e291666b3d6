"""Data in and out: export, import, and the exports and API of other products."""
