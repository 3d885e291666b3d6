"""Tenants."""
