"""A source, told what it is and opened: an archive, a companion, or both read as one.

In: a path, bytes or a binary file. Out: what the file is (``recognition``); an ``Archive`` or ``Companion``
(``opening``), whose records, columns and facts are read when they are first asked for; the releases that may
have written it (``provenance``); what it lacks and why (``lacking``).
"""
