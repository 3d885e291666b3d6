"""The context of a turn: what the agent sees, within a token budget."""
