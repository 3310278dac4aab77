"""``debug-archive store``: one file a command; ``group`` finds them by name, ``options`` is shared."""
