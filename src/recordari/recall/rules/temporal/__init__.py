"""Temporal."""
