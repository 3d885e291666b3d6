"""Coding agents and other programs that host a model: installs Recordari into them, and is called by their hooks."""
