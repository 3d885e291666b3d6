"""Tenants, users, definitions of agents, API keys and quotas."""
