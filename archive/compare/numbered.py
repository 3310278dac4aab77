"""Tensors that PyTorch numbers: constants of code, of methods of the lite interpreter, of exported programs.

A constant that is new gives all later ones other numbers. So they are paired by their order and content, not
by number. The content is known by the checksum that the zip has of it: two that are paired wrongly are told
as changed, for their elements are compared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.compare.alignment import paired

if TYPE_CHECKING:
    from archive.reader.tensors import Tensors

NUMBERED = re.compile(r"((?:.*:)?CONSTANTS\.c|(?:.+[:.])?lifted_tensor_|bytecode:(?:\d+\.)+)\d+")
"""The name of such a tensor: what stands before the number."""


def pairs_of_tensors(old: Tensors, new: Tensors) -> dict[str, str]:
    """The new archive's names of the tensors that both have, by the old one's.

    Raises:
        ArchiveError: there is no such storage.
    """
    was, now = _groups(old), _groups(new)
    found = {name: name for name in old if name in new and NUMBERED.fullmatch(name) is None}
    for group in was.keys() & now.keys():
        names = was[group], now[group]
        keys = (
            [_keys(tensors, name) for name in each] for tensors, each in zip((old, new), names, strict=True)
        )
        found |= {names[0][one]: names[1][other] for one, other in paired(*keys)}
    return found


def _groups(tensors: Tensors) -> dict[str, list[str]]:
    """The names of numbered tensors by what stands before the number, in their order."""
    found: dict[str, list[str]] = {}
    for name in tensors:
        match = NUMBERED.fullmatch(name)
        if match:
            found.setdefault(match[1], []).append(name)
    return found


def _keys(tensors: Tensors, name: str) -> tuple[str, str]:
    tensor = tensors[name]
    kind = f"{tensor.dtype} {tensor.shape}"
    content = tensors.record(tensor.record).crc32 if tensor.record else None
    return f"{kind} {tensor.strides} {tensor.offset} {content}", kind
