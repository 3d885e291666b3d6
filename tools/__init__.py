"""Programs for those who work on Recollect."""
