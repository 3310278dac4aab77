"""How formats are written down here: each once, in one vocabulary of three parts.

- *binary*: ``construct``. A header of fixed size is a ``Struct`` in a :class:`~archive.schema.binary.Layout`;
  what has no fixed size is any construct, read by :func:`archive.schema.binary.parse`.
- *pickles*: :mod:`archive.schema.pickled`.
- *JSON*: :mod:`archive.schema.json`.
"""
