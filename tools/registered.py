"""Write the names of PyTorch's operators to ``archive/check/operators.txt``, a line a namespace.

    python -m tools.registered

The namespaces are those whose operators every build of PyTorch registers, and nobody else.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import torch

from archive.check import registered

NAMESPACES = ("aten", "prim", "quantized")
BUILTINS = {
    *("_assert", "_assert_int_or_pair", "_single", "_pair", "_triple", "_quadruple", "list_with_default"),
    *("T", "H", "mT", "mH", "device", "__contains__"),
}
"""Functions of ``aten`` that ``builtin_functions.cpp`` writes in TorchScript; they have no schema."""


def text() -> str:
    """What stands in the file."""
    names: defaultdict[str, set[str]] = defaultdict(set, aten=set(BUILTINS))
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        names[space].add(name)
    return "".join(f"{space} {' '.join(sorted(names[space]))}\n" for space in NAMESPACES)


if __name__ == "__main__":
    Path(registered.__file__).with_name(registered.OPERATORS_FILE).write_text(text(), encoding="ascii")
