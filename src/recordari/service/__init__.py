"""Verbs: load, decide, save; the only place that opens transactions."""
