"""The vocabulary in which each record's format is declared, once.

A declaration parses (``take``: nodes of a tree -> columns), builds (``emitter``: columns -> pickle) and
describes itself (``str``). ``take`` works on all values of a declaration at once: it gets the n nodes that
should match it and returns columns of n entries:

=============  =============================================  ================================
declaration    value                                          columns
=============  =============================================  ================================
``Int``        an integer                                     int64 (n)
``String``     a text                                         index into the tree's strings (n)
``Const``      one text that is always the same               nothing
``Optional``   None or the value                              as the value's, -1 for None
``Value``      any value, which is not read                   its node (n)
``Tuple``      a tuple of fixed fields                        a dict, by field
``Opening``    a tuple that opens with fixed fields           a dict, by field
``Keyed``      pairs of key and value                         its node; ``nodes`` finds a key's items
``Sequence``   a tuple of any number of items                 ``Ragged``
``IntList``    ``build_intlist([…])``                         ``Ragged``
``Shared``     a value kept once and referred to              ``Indexed``
``Chain``      a linked list: each tuple holds the next one   ``Links``
``Memo``       the value, with a memo entry of its own        the value's
=============  =============================================  ================================

Where only a few values are wanted (one instruction of a method), ``nodes`` of a tuple or sequence, ``node``
of a table and ``index`` of a text read a single one; ``at_byte`` turns its mismatches into errors.

``Shared``, ``Chain`` and ``Memo`` also say where PyTorch's pickler makes memo entries. All declarations of a
record write through one ``Writer``, whose memo they share. For example, two rows of source ranges with the
same source::

    declaration    Memo(Sequence(Tuple(offset=Int(), range=Tuple(source=Shared(...), ...))))

    row 0 ── range ── source 0 ── text, filename       written: X text, q0; X filename, q1; t, q2
    row 1 ── range ──────'                             written: h2
    outer tuple                                        written: t, q3

    columns        Ragged(first=[0, 2], items={offset: (2), range: {source: Indexed(index=[0, 0],
                                                                     items={text: (1), ...}), ...}})

The same, plainly, with one Python object per value: ``source_ranges`` and ``callstack_map`` in
``tests/support/slow_reader.py``.

A field of a tuple may have a doc, ``start=Int() * "the first byte"``.
:func:`archive.formats.schema.pickled.described.tree` writes a declaration with its docs as lines.
"""

from archive.formats.schema.pickled.containers import IntList, Keyed, Opening, Sequence, Tuple
from archive.formats.schema.pickled.core import (
    Declaration,
    Documented,
    Gathered,
    Indexed,
    Links,
    PickleMismatch,
    Ragged,
    Repeated,
    at_byte,
    build,
    first_item,
    found_at,
    parse,
)
from archive.formats.schema.pickled.scalars import Const, Int, Optional, String, Value
from archive.formats.schema.pickled.shared import Chain, Memo, NextInChain, Shared

__all__ = [
    "Chain",
    "Const",
    "Declaration",
    "Documented",
    "Gathered",
    "Indexed",
    "Int",
    "IntList",
    "Keyed",
    "Links",
    "Memo",
    "NextInChain",
    "Opening",
    "Optional",
    "PickleMismatch",
    "Ragged",
    "Repeated",
    "Sequence",
    "Shared",
    "String",
    "Tuple",
    "Value",
    "at_byte",
    "build",
    "first_item",
    "found_at",
    "parse",
]
