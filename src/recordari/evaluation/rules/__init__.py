"""Formats of benchmarks, measures, and the report."""
