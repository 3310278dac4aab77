"""A file → what is in it, and how much.

``inspect`` and ``sizes`` are the commands, ``listing`` shows a zip that is no archive, ``profiles`` what ran.
"""
