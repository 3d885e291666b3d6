"""Coding agents and other programs that host a model: installs Recordari into them, and is called by their hooks.

This file is also the program that hosts call: `python -I -S …/hosts/__init__.py SETTINGS EVENT`, the host's JSON on standard
input. Python compiles it at each call, so all else is in modules that are compiled once.
"""

if __name__ == "__main__":
    import os
    import sys

    # The package without what its own `__init__` imports: `typing` alone takes as long as all that a hook needs.
    package = type(sys)("recordari")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["recordari"] = package

    from recordari.hosts.hook import main

    main(sys.argv)
