"""How patterns are found, what is proposed, and how a workflow is drawn."""
