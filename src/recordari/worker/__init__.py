"""Background work: jobs of a tenant, the dispatch of outbox entries, dead letters."""
