"""Side effects of methods: as facts (``model``), as a record (``record``: its specification), and as Python.

``column_builder`` builds the record's columns from facts; ``row_parser`` and ``table_parser`` parse them.
``rules`` says which facts are valid, ``gate`` which names they may hold. ``source_text`` prints single facts,
``program_text`` whole methods.
"""

EFFECTS = "extra/effects.pkl"
"""Name of the record; ``torch.jit.load(_extra_files=…)`` gives it out as ``effects.pkl``."""
