"""Documents under keys, by namespace, a store in the words of agent frameworks."""
