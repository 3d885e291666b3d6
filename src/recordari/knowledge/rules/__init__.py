"""How documents are cut into chunks, and what the knowledge map says."""
