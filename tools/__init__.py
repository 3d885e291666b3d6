"""Programs for those who work on Recordari."""
