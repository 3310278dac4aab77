"""Sources that TorchScript reads: those of a function or class are found once, not for each scripted module.

``torch.jit.script`` asks ``inspect`` for the source of each function that it compiles, PyTorch's own too.
``inspect`` tokenises the lines of a function, and parses the whole file of a class, each time. What has no
file, as a text that tests compile, is asked for anew, and so is what is in a file that has changed.
"""

from __future__ import annotations

import inspect
import os
import sys
from types import FunctionType, MethodType
from typing import Any

_find = inspect.getsourcelines
_found: dict[tuple[object, ...], tuple[list[str], int]] = {}


def remember_sources() -> None:
    """Let ``inspect`` remember the lines of functions and classes in files."""
    inspect.getsourcelines = _getsourcelines  # type: ignore[assignment]


def _getsourcelines(of: Any) -> tuple[list[str], int]:  # noqa: ANN401
    key = _key(inspect.unwrap(of))
    if key is None:
        return _find(of)
    if key not in _found:
        _found[key] = _find(of)
    lines, first = _found[key]
    return lines.copy(), first


def _key(of: Any) -> tuple[object, ...] | None:  # noqa: ANN401
    """The file of a function or class, as it is now, and the place there; None where there is no file."""
    file: str | None = None
    place: object = None
    if isinstance(of, FunctionType | MethodType):
        file, place = of.__code__.co_filename, of.__code__.co_firstlineno
    elif isinstance(of, type):
        file, place = getattr(sys.modules.get(of.__module__), "__file__", None), of.__qualname__
    if file is None:
        return None
    try:
        status = os.stat(file)  # noqa: PTH116 (asked thousands of times)
    except OSError:
        return None
    return file, status.st_mtime_ns, status.st_size, place
