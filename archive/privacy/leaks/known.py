"""The lines of source text that source ranges refer to: PyTorch's own, and the model's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.privacy.leaks.sources import OWN
from archive.reader.opening import open as open_archive
from archive.reader.recognition import ARCHIVE_KINDS, FileKind

if TYPE_CHECKING:
    from archive.base.limits import Limits
    from archive.base.mapped import Mapped

HAVE_RANGES = ARCHIVE_KINDS | {FileKind.COMPANION}
"""Kinds of files that have source ranges."""
CALL = re.compile(rb"[^\n]+\(\d+\): [^\n]*")
"""A line of a traced operation's text, which is its Python stack: ``/home/ann/net.py(12): forward``."""
NO_FILE = {b"", b"<string>"}
"""Names of the files of text that is from none."""
WRITTEN = re.compile(
    rb"\s*def __len__\(self\):\s+return \d+\s*\Z"
    rb"|.*\bself\.__(?:backend|processed_module|method_compile_spec|create_backend|loweredModule__)",
    re.DOTALL,
)
"""Methods that PyTorch writes itself, for containers of modules and for lowered ones:
``torch/jit/_recursive.py``, ``torch/csrc/jit/backends/backend_detail.cpp``."""
BUILT_IN = re.compile(
    rb"\ndef (?:"
    rb"(?:mul|lt)\(a : \w+, b : Tensor\) -> Tensor:\n  return b "
    rb"|_\w+\(x: BroadcastingList\d\[\w+\]\) -> List\[\w+\]:\n  return x\n\Z"
    rb"|floordiv\(self : Tensor, other : \w+\) -> Tensor:\n  return torch\.floor_divide\(self, other\)\n\Z"
    rb"|_assert_int_or_pair\(vals: List\[int\], name: str, message: str\):\n  pass\n"
    rb"|_assert\(condition : Tensor, message : str\):\n  assert bool\(condition\), message\n"
    rb"|ndim\(a : Tensor\) -> int:\n  return a\.dim\(\)\n"
    rb"|(?:div|full|linspace|logspace|gelu)\w*_0_\d\()"
)
"""What texts begin with that PyTorch has in TorchScript: ``torch/csrc/jit/frontend/builtin_functions.cpp``,
``torch/csrc/jit/operator_upgraders/upgraders_entry.cpp``."""
WORD = re.compile(rb"[^\W\d]\w")


class Known(NamedTuple):
    """Lines of source text, without blanks at either end.

    Attributes:
        own: those that PyTorch's own modules have alone.
        model: those of others; None where source ranges are not read: lines are told by their looks then.
        problem: why they are not, though the file should have them; "" else.
    """

    own: frozenset[bytes]
    model: frozenset[bytes] | None
    problem: str = ""


BY_LOOKS = "so lines are source text by their looks, PyTorch's own, too"


def known_lines(mapped: Mapped, kind: FileKind, limits: Limits) -> Known:
    """The lines of source text in a file.

    Args:
        mapped: the file.
        kind: its kind.
        limits: what it may cost; of texts, no more than ``compared_bytes`` are read.
    """
    if kind not in HAVE_RANGES:
        return Known(frozenset(), None)
    try:
        with open_archive(mapped.data, limits=limits, name=mapped.name) as archive:
            table = archive.range_table.sources
            size, most = int(table.lengths.sum()), min(limits.compared_bytes, archive.allowance.memory // 4)
            if size > most:
                why = (
                    f"{size:,} bytes of source text are not compared with PyTorch's own, at most {most:,} are"
                )
                return Known(frozenset(), None, f"{why}, {BY_LOOKS}")
            own: set[bytes] = set()
            model: set[bytes] = set()
            for source in (table[number] for number in range(len(table))):
                name = str(source.filename or "").encode(errors="surrogateescape")
                text = str(source.text).encode(errors="surrogateescape")
                is_own = OWN.search(name) or (
                    name in NO_FILE and (WRITTEN.match(text) or BUILT_IN.match(text))
                )
                (own if is_own else model).update(map(bytes.strip, text.split(b"\n")))
            told = {line for line in model if WORD.search(line) and not CALL.fullmatch(line)}
            return Known(frozenset(own - model), frozenset(told))
    except ArchiveError as problem:
        return Known(frozenset(), None, f"source ranges cannot be read, {BY_LOOKS}: {problem}")
