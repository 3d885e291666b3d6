"""Memories shared with other tenants of an organisation, and agents that begin with a copy of another's memories."""
