"""The ground that all rooms stand on: errors, limits, strings, columns, mapped files, written files.

In: a path, bytes or a binary file. Out: its bytes as a view (``mapped``); a file written completely or not at
all (``output``); strings as places in buffers (``strings``); the one error, with its place (``errors``).
"""
