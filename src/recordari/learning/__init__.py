"""What memory learns: patterns of closed sessions, proposals of the weekly review, workflows chosen by their outcome."""
