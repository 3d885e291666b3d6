"""Measures recall and answers on public benchmarks that the user has: `recordari eval`."""
