"""Replay: table + state → changes; all values computed first, then all changes made, or all undone.

``replay`` checks a method's effects, and ``interpreter`` makes two functions from them: ``computing`` has how
these read and compute, ``steps`` what each op changes, through ``changes``, which can be undone. No text of a
table is run. A ``state`` is what they change, made ``fresh`` from the table.
``classes`` returns the classes and functions that a table names, ``hooks`` and ``custom_backward`` what
PyTorch calls in the backward pass.
"""
