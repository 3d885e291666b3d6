"""What every room may use: ids and identity, items and their kinds, checks, text, tokens, telemetry, small caches."""
