"""`python -m recollect` is the command line."""

from __future__ import annotations

from recollect.entry.cli import main

if __name__ == "__main__":
    main()
