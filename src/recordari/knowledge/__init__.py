"""Documents and sources: read, cut into chunks, revised, searched."""
