"""The base of every room: ids and identity, items and their kinds, checks, text, tokens, telemetry, small caches."""
