"""From one release's records to another's.

``rewriting`` plans and rewrites: ``ranges`` (layouts of source ranges), ``stacks`` and ``instructions``
(handles, call stacks, module paths), ``rescue`` (lowered code). ``members`` puts the records in order,
``aside`` keeps the original and gives it again, ``check`` compares what came out with what went in.
"""
