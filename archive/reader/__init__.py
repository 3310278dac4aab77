"""A file is recognised and opened: an archive, a companion, or both read as one.

In: a path, bytes or a binary file. Out: the kind of file (``recognition``); an ``Archive`` (``opening``,
``archive``), whose records, columns and facts are read when they are first asked for; the PyTorch releases
that may have written it (``provenance``); the debug information that it lacks, and why (``lacking``);
the facts that say whether a failure may come from it (``facts``); the steps by which a file is written from
another one (``rewriting``).

``records`` declares the three parts that an ``Archive`` is read through. ``pickle_records`` gives them from
the records of a zip, ``companion`` from a companion file.
"""
