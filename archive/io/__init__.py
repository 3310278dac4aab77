"""Bytes from anywhere by range, bounded in memory and time; files replaced completely or not at all.

In: a path, URL, bytes or a binary file. Out: its bytes as a view (``mapped``), those of a remote file
(``location``) by ranges (``remote``, ``ranged``, ``patience``, ``s3``); a file written completely or not at
all (``output``, ``drafts``), to a URL too (``uploads``); folders and globs (``places``, ``globs``). Knows no
archive and no command.
"""
