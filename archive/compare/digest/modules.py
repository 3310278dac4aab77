"""The digests of modules: of the tensors in each, by their names in it.

The digest of ``encoder`` is the sha256 of lines like those of a list of parts, one for each tensor in it or
below it, sorted by name: ``encoder.0.weight`` is ``0.weight`` there. So modules of equal tensors have equal
digests, wherever they are in a model. A state dict has the modules that its names tell.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from archive.compare.digest.lines import written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.base.limits import Allowance

MOST = 64
"""How many modules a tensor may be in, the outermost ones, that have digests."""
MODULE_BYTES = 400
"""Bytes of memory that a module costs besides its path."""
NO_MODULE = re.compile(r"(?:.*:)?CONSTANTS\.c\d+|bytecode:.*", re.DOTALL)
"""Tensors that are constants of code."""


def module_digests(tensors: Mapping[str, bytes], allowance: Allowance) -> Iterator[tuple[str, bytes]]:
    """The digest of each module.

    Args:
        tensors: the digests of tensors by name.
        allowance: the memory that modules may cost.

    Raises:
        LimitError: there are more modules, or longer paths, than allowed.
    """
    found: dict[str, hashlib._Hash] = {}
    for name in sorted(tensors):
        if NO_MODULE.fullmatch(name):
            continue
        for end in _ends(name):
            path = name[:end]
            if path not in found:
                allowance.take(MODULE_BYTES + end, "modules")
                found[path] = hashlib.sha256()
            line = f"{tensors[name].hex()}  {written(name[end + 1 :])}\n"
            found[path].update(line.encode())
    yield from ((path, digest.digest()) for path, digest in found.items())


def _ends(name: str) -> Iterator[int]:
    """Where the paths of the modules end that a tensor is in, the outermost first."""
    end = name.find(".", name.rfind(":") + 1)
    for _ in range(MOST):
        if end < 0:
            return
        yield end
        end = name.find(".", end + 1)
