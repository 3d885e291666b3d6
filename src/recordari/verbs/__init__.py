"""The verbs of `Memory` by noun, one delegating line each; `app.py` puts them together."""
