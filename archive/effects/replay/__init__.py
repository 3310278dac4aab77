"""Replay: table + state → changes; all values computed first, then all changes made, or all undone.

``replay`` checks a method's effects, and ``compiler`` makes two functions of them: ``expressions`` is how
these read and compute, ``steps`` how they change and undo, with ``backups``. A ``state`` is what they change:
a ``live`` module, or one made ``fresh`` from the table. ``named_values`` are held by their names.
``container_classes`` and ``base_methods``: containers of classes that are here or not, changed by methods of
Python's own.
"""
