"""Items: remembered, indexed by words and meaning, versioned, read."""
