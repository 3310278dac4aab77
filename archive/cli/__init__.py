"""The command ``debug-archive``: arguments → calls of the library, printed facts, exit status.

``main`` finds a command by its name; each command has a file of its own and reads ``prepare → run →
status``. Commands that make files out of files share ``options`` (what they take), ``jobs`` (which files),
``batch`` and ``pool`` (the work), ``words`` (what is printed of it) and ``manifest`` (what is done already).
No other room prints.
"""

from archive.cli.main import main

__all__ = ["main"]
