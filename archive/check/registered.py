"""What a model names that does not come with PyTorch: operators, and classes of C++ (``torch.classes``).

PyTorch 2.13 refuses a model whose operators or classes are not registered: ``Unknown builtin op``, ``Unknown
type name``. They are registered by importing or loading what defines them, which no archive names. So a model
is well without them, and a note says which it needs. A backend is a class of ``torch.classes.__backends__``.

``OPERATORS_FILE`` lists the operators of namespaces that all builds of PyTorch fill alike. One that is not
there is mistyped, or of another release.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.formats.record_kinds import is_code

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from archive.base.diagnostics import Diagnostics
    from archive.reader.archive import Archive

NAMESPACES = {
    *("aten", "prims", "prim", "higher_order", "quantized", "_quantized", "sparse", "profiler", "export"),
    *("inductor", "inductor_prims", "rngprims", "debugprims", "mkl", "mkldnn", "onednn", "static_runtime"),
    *("c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "symm_mem", "fsdp"),
    *("_dtensor", "streams", "quantization", "mkldnn_prepacked", "onnx", "onnx_symbolic", "flex_lib"),
}
"""Where the operators of PyTorch are."""
BUILDS_NAMESPACES = {"prepacked", "metal", "metal_prepacked", "vulkan", "vulkan_prepacked", "cuda", "xnnpack"}
"""Where operators are that only some builds of PyTorch have, such as those for telephones."""
CLASS_NAMESPACES = {
    *("_nnapi", "aten", "backendutils", "c10d", "dist_c10d", "dist_rpc", "mkldnn", "profiling", "quantized"),
    *("rnn", "sparse", "xnnpack", "metal", "vulkan", "cuda", "tensorexpr", "inductor", "aoti"),
}
"""Where the classes of PyTorch are, in whichever build."""
OPERATORS_FILE = "operators.txt"
"""A line for each namespace: its name, and the names of its operators, without overloads."""
NAMED = re.compile(rb"__torch__\.torch\.classes\.(\w+)\.(\w+)|(?<![\w.)\]])ops\.(\w+)\.(\w+)\(")
"""A class, or a call of an operator, in generated code."""
MOST = 3
"""Names that a note has."""


@cache
def operators() -> Mapping[str, frozenset[str]]:
    """The names of PyTorch's operators, by namespace."""
    place = f"{__file__.rpartition(os.sep)[0]}{os.sep}{OPERATORS_FILE}"
    with open(place, encoding="ascii") as file:  # noqa: PTH123 (start-up)
        lines = file.read().splitlines()
    return {space: frozenset(names) for space, *names in map(str.split, lines)}


def is_unknown(space: str, name: str) -> bool:
    """Whether an operator is not among PyTorch's, of a namespace whose operators are all PyTorch's."""
    return space in operators() and name not in operators()[space]


def check_registered(archive: Archive, readable: Collection[str], report: Diagnostics) -> None:
    """Note operators and classes in generated code that do not come with PyTorch, at the first of them."""
    needed: dict[str, str] = {}
    for record in filter(readable.__contains__, filter(is_code, archive.records)):
        for name in _needed(archive.records[record].view()):
            needed.setdefault(name, record)
    note_needed(next(iter(needed.values()), ""), list(needed), report)


def _needed(code: memoryview) -> Iterator[str]:
    for found in NAMED.finditer(code):
        space, name, of_operator, operator = (part and part.decode() for part in found.groups())
        if space and space not in CLASS_NAMESPACES:
            yield f"torch.classes.{space}.{name}"
        elif operator and of_operator not in NAMESPACES | BUILDS_NAMESPACES:
            yield f"torch.ops.{of_operator}.{operator}"


def note_needed(record: str, needed: Sequence[str], report: Diagnostics) -> None:
    """Note what a record names that does not come with PyTorch, if there is some."""
    if needed:
        some = ", ".join(map(one_line, needed[:MOST])) + (", …" if len(needed) > MOST else "")
        report.add("note", record, "", f"PyTorch loads it where others have registered {some}")
