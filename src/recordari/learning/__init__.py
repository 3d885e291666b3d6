"""Learning: patterns of closed sessions, proposals of the weekly review, workflows chosen by their outcomes."""
