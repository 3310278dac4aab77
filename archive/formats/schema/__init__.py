"""The vocabulary in which each record's format is declared, once.

A declaration parses (``take``: nodes of a tree -> columns), builds (``emitter``: columns -> pickle) and
describes itself (``str``). It works on all values of one kind at once: ``take`` is given the n nodes
that should match and returns columns of n entries:

=============  =============================================  ================================
declaration    value                                          columns
=============  =============================================  ================================
``Int``        an integer                                     int64 (n)
``String``       a text                                         index into the tree's strings (n)
``Const``      one text that is always the same               nothing
``Optional``   None or the value                              as the value's, -1 for None
``Tuple``      a tuple of fixed fields                        a dict, by field
``Sequence``   a tuple of any number of items                 ``Ragged``
``IntList``    ``build_intlist([…])``                         ``Ragged``
``Shared``     a value kept once and referred to              ``Indexed``
``Chain``      a linked list: each tuple holds the next one   ``Links``
``Memo``       the value, with a memo entry of its own        the value's
=============  =============================================  ================================

``Shared``, ``Chain`` and ``Memo`` also say where PyTorch's pickler makes memo entries.
"""

from archive.formats.schema.containers import IntList, Sequence, Tuple
from archive.formats.schema.core import Indexed, Links, Mismatch, Ragged, Schema, build, found_at, parse
from archive.formats.schema.scalars import Const, Int, Optional, String
from archive.formats.schema.shared import Chain, Memo, NextInChain, Shared

__all__ = [
    "Chain",
    "Const",
    "Indexed",
    "Int",
    "IntList",
    "Links",
    "Memo",
    "Mismatch",
    "NextInChain",
    "Optional",
    "Ragged",
    "Schema",
    "Sequence",
    "Shared",
    "String",
    "Tuple",
    "build",
    "found_at",
    "parse",
]
