"""How candidates are found, scored, folded and explained."""
