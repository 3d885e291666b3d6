"""Tenants, users, agents' definitions and API keys: who exists, who may call, and how much each may use."""
