"""Side effects of methods: as facts (``model``), as a record (``schema``: its specification), and as Python.

``words`` has a row for each op, look and operation. ``schema`` declares the record's rows, which ``rows``
makes of facts, and facts of them, and ``record`` reads and writes. ``rules`` says which facts are valid,
``gate`` which names they may hold. ``source_text`` prints single facts, ``program_text`` whole methods.
"""

EFFECTS = "extra/effects.pkl"
"""Name of the record; ``torch.jit.load(_extra_files=…)`` gives it out as ``effects.pkl``."""
