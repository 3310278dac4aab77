"""Replay: table + state → changes; all values computed first, then all changes made, or all undone.

``replay`` checks a method's effects, and ``interpreter`` makes two functions of them: ``computing`` is how
these read and compute, ``steps`` how they change, with ``backups``. No text of a table is run. A ``state``
is what they change: a ``live`` module, or one made ``fresh`` from the table. ``named_values`` are held by
their names. ``container_classes`` and ``base_methods``: containers of classes that are here or not, changed
by methods of Python's own.
"""
