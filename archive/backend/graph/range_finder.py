"""Finds the source ranges of a module's nodes, to the byte.

In Python, PyTorch gives a node's range only as text: file, line, and the source around it with the range
marked. The archive of the module holds all ranges as numbers. So each of these is printed as PyTorch prints
it, and a node's text is looked up among them.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from archive.backend.pytorch import shown, temporary_archive
from archive.base import memory
from archive.base.columns import table_of
from archive.base.strings import StringView
from archive.debuginfo.excerpt import excerpt
from archive.debuginfo.frames import ANY_FILE, LINE
from archive.debuginfo.model import Source, SourceRange
from archive.reader.opening import open as open_archive

OF_LOADED_CODE = "Serialized   File "
"""PyTorch's words in front of a range in the code of an archive."""
SHOWN = re.compile(rf"  {ANY_FILE}{LINE}\n(?P<lines>(?s:.*))")
MARKING = re.compile(r"^( *)(~+) <--- HERE\n", re.MULTILINE)
"""PyTorch's mark under the one line of a range."""


class RangeFinder:
    """The source ranges of a module, by the texts that PyTorch shows for them.

    Args:
        known: each range by its text.
    """

    def __init__(self, known: dict[str, SourceRange]) -> None:
        self._known = known

    @classmethod
    def of(cls, module: Any) -> RangeFinder:  # noqa: ANN401
        """The ranges of a module and of all that it calls: it is saved without weights, then read."""
        known: dict[str, SourceRange] = {}
        copied = torch.jit._recursive.wrap_cpp_module(_without_weights(module))
        with (
            temporary_archive(copied) as path,
            open_archive(path) as opened,
            memory.charged(opened.allowance),
        ):
            table = opened.range_table
            sources = [table.sources[number] for number in range(len(table.sources))]
            # contiguous, as each is read many times
            texts = [bytes(source.text) for source in sources]
            strings = table_of(texts)
            sources = [
                Source(StringView(strings, number), source.filename, source.starting_line, source.is_null)
                for number, source in enumerate(sources)
            ]
            places = zip(table.source.tolist(), table.start.tolist(), table.end.tolist(), strict=True)
            for number, start, end in dict.fromkeys(places):  # many rows have one range
                span = SourceRange(sources[number], start, end)
                known.setdefault(shown(span, texts[number]), span)
        return cls(known)

    def find(self, shown: str) -> SourceRange | None:
        """The range that PyTorch shows as this text; None if it shows none.

        For a loaded module, PyTorch shows the range in the model's source, and then the one in the archive's
        code. A range that no record has, such as that of ``x.shape`` within a longer expression, is in a
        source of the lines shown.
        """
        original = shown.rpartition(OF_LOADED_CODE)[0] or shown
        return self._known.get(shown) or self._known.get(original) or _in_lines_shown(original)


def _in_lines_shown(shown: str) -> SourceRange | None:
    """The range that PyTorch shows as a text, in a source that has no other lines; None for other texts."""
    header, marks = SHOWN.fullmatch(shown), list(MARKING.finditer(shown))
    if header is None or len(marks) != 1:
        return None
    mark = marks[0]
    before = shown[header.start("lines") : mark.start()]
    text = before + shown[mark.end() :]
    strings = table_of([text.encode(), header["file"].encode()])
    source = Source(
        StringView(strings, 0), StringView(strings, 1), int(header["line"]) - before.count("\n") + 1
    )
    start = len(before[: before.rindex("\n", 0, -1) + 1].encode()) + len(mark[1])
    span = SourceRange(source, start, start + len(mark[2]))
    return span if excerpt(span, b"") == shown.encode() else None


def _without_weights(module: Any) -> Any:  # noqa: ANN401
    """A copy of a module, of the same type, in which parameters and buffers have no items.

    Modules with a method of their own for their state keep theirs.
    """
    copied = module._replicate_for_data_parallel()
    for name, child in torch._C.ModuleDict(module).items():
        copied.setattr(name, _without_weights(child))
    if not module._has_method("__getstate__"):
        for tensors in (torch._C.ParameterDict(module), torch._C.BufferDict(module)):
            for name in dict(tensors.items()):
                copied.setattr(name, torch.empty(0))
    return copied
