"""Side effects of methods: as facts (``model``), as a record (specified in ``schema``), and as Python.

``words`` has a row for each op, look and operation. ``schema`` declares the record's rows, ``rows`` converts
facts to rows and back, and ``record`` reads and writes. ``rules`` says which facts are valid, ``gate`` which
names they may hold. ``source_text`` prints facts.
"""

EFFECTS = "extra/effects.pkl"
"""Name of the record; ``torch.jit.load(_extra_files=…)`` returns it as ``effects.pkl``."""
