"""The ground that all rooms stand on: errors, limits, strings, columns, files that are read and written.

In: a path, URL, bytes or a binary file. Out: its bytes as a view (``mapped``), those of a file elsewhere
(``location``) by ranges (``remote``, ``ranged``, ``patience``); a file written completely or not at all
(``output``), elsewhere too (``uploads``); strings as places in buffers (``strings``); the one error, with its
place (``errors``).
"""
