"""Doors."""
