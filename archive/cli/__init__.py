"""The command ``debug-archive``: one file a command. The only rooms that print."""

from archive.cli.main import main

__all__ = ["main"]
