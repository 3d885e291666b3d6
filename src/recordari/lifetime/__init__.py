"""Lifetime."""
