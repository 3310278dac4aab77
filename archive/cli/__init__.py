"""The command ``debug-archive``: arguments → calls of the library, printed facts, exit status.

``commands`` finds a command by its name; each has a file of its own. Commands that read many files share
``reading``: a new one says how it reads a file, and which row it prints. ``inventory`` is a form of
``inspect``. Commands that make files out of files share ``making``. No other room prints.
"""

from archive.cli.main import main

__all__ = ["main"]
