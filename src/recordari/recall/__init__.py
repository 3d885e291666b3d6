"""Recall: a question becomes a ranked list of items, with the reason for each."""
