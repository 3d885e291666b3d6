"""Doors: REST, MCP, command line."""
