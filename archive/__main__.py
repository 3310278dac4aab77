"""``python -m archive``: the command ``debug-archive``."""

from archive.cli import main

main()
