"""Method handles and module paths are written in few bytes.

Handles count up. Deflate finds more repetition in them if all take four bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.debuginfo.model import Generation
from archive.rewrite.compact.encoding import pickled
from archive.rewrite.compact.instructions import (
    BUILDER,
    CLOSE,
    INT,
    SHARED_TEXT,
    WIDE,
    Composer,
    Instructions,
    each,
    integer_lists,
    tuple_of,
    tuples,
)
from archive.rewrite.compact.strings import own_strings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.limits import Allowance
    from archive.debuginfo.handle_tables import MethodTable

KEYS = {Generation.METHOD_HANDLES: b"function_debug_handles", Generation.MODULE_PATHS: b"module_debug_info"}


METHOD_BYTES, VALUE_BYTES = 250, 50
"""Bytes of memory that a method, and a handle or path of it, cost while they are written in several ways."""


def ways(table: MethodTable, allowance: Allowance) -> Iterator[bytes]:
    """Write the record in several ways.

    Raises:
        LimitError: it would cost more memory than the allowance has.
    """
    allowance.take(METHOD_BYTES * len(table) + VALUE_BYTES * len(table.value), "methods and their handles")
    is_paths = table.generation is Generation.MODULE_PATHS
    index = np.concatenate((table.name, table.value)) if is_paths else table.name
    strings, number = own_strings(table.strings, index, allowance)
    strings = [*strings, KEYS[table.generation], BUILDER]
    for op in (SHARED_TEXT,) if is_paths else (INT, WIDE):
        value = number[len(table) :] if is_paths else table.value
        items = Instructions(table.first, np.full(len(value), op, np.uint8), value)
        methods = Composer(len(table))
        methods.add(SHARED_TEXT, number[: len(table)])
        methods.add(SHARED_TEXT, len(strings) - 2)
        if is_paths:
            methods.insert(tuples(items, np.diff(table.first)))
        else:
            methods.insert(integer_lists(items, len(strings) - 1))
            methods.add(CLOSE[1])
        # Close (key, list), the table with this one entry, and (method, table).
        for size in (2, 1, 2):
            methods.add(CLOSE[size])
        code = tuple_of(each(INT, np.array([table.version])), methods.code())
        yield pickled(code, strings, allowance)
