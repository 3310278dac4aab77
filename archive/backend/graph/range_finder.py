"""Finds the source ranges of a module's nodes, to the byte.

In Python, PyTorch gives a node's range only as text: file, line, and the source around it with the range
marked. The archive of the module holds all ranges as numbers. So each of these is printed as PyTorch prints
it, and a node's text is looked up among them.
"""

from __future__ import annotations

import io
from typing import Any

import torch

from archive.debuginfo.excerpt import excerpt
from archive.debuginfo.model import Source, SourceRange
from archive.normalform.pool import table_of
from archive.reader.opening import open as open_archive

OF_LOADED_CODE = "Serialized   File "
"""PyTorch's words in front of a range in the code of an archive."""


class RangeFinder:
    """The source ranges of a module, by the texts that PyTorch shows for them.

    Args:
        known: each range by its text.
    """

    def __init__(self, known: dict[str, SourceRange]) -> None:
        self._known = known

    @classmethod
    def of(cls, module: Any) -> RangeFinder:  # noqa: ANN401
        """The ranges of a module and of all that it calls: the module is saved, and its records are read.

        Args:
            module: a ``torch._C.ScriptModule``.
        """
        buffer = io.BytesIO()
        torch.jit.save(torch.jit._recursive.wrap_cpp_module(module), buffer)
        known: dict[str, SourceRange] = {}
        with open_archive(buffer.getvalue(), name="the module's own archive") as opened:
            table = opened.range_table
            sources = [table.sources[number] for number in range(len(table.sources))]
            texts = table_of(bytes(one.text) for one in sources)  # contiguous, as each is read many times
            sources = [
                Source(texts[number], one.filename, one.starting_line, one.is_null)
                for number, one in enumerate(sources)
            ]
            for row, number in enumerate(table.source.tolist()):
                span = SourceRange(sources[number], int(table.start[row]), int(table.end[row]))
                known.setdefault(excerpt(span, b"").decode("utf-8", "backslashreplace"), span)
        return cls(known)

    def find(self, shown: str) -> SourceRange | None:
        """The range that PyTorch shows as this text; None if no record has it.

        Of a loaded module PyTorch shows the range in the model's source, and behind it the one in the code of
        the archive.
        """
        original, _, _ = shown.rpartition(OF_LOADED_CODE)
        return self._known.get(shown) or self._known.get(original)
