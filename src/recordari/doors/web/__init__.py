"""The dashboard: serves the built page, and signs browsers in and out."""
