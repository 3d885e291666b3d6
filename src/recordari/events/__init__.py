"""Changes of memory: a feed that programs follow, and signed webhooks."""
