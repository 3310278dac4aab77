"""The command ``debug-archive``: arguments → calls of the library, printed facts, exit status.

``main`` finds a command by its name; each command has a file of its own and reads ``prepare → run →
status``. Commands that make files out of files share ``files``, those that read many ``several``, and both
the bar of ``progress``. ``sizes`` is done in ``measuring``, its budgets in ``gate``. No other room prints.
"""

from archive.cli.main import main

__all__ = ["main"]
