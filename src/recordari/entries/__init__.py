"""Documents under keys, by namespace: what agent frameworks call a store."""
