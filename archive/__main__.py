"""``python -m archive``: the command ``debug-archive``."""

from debug_archive import main

main()
