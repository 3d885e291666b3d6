"""What counts as a fact, when two facts contradict each other, and how sure a fact is."""
