"""Rules that extract facts, find contradictions, and set the confidence of a fact."""
