"""`python -m recordari` is the command line."""

from __future__ import annotations

from recordari.doors.cli.main import main

if __name__ == "__main__":
    main()
