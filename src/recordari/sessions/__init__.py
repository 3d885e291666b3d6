"""Sessions, messages, notes and summaries; runs, turns, episodes and tool calls; state by key."""
