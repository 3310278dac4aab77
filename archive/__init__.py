"""The debug information inside PyTorch model archives: read, symbolicated and written without PyTorch.

>>> import archive
>>> with archive.open("fixtures/oracles/plain_stack.ptl") as a:
...     print(a.symbolicate(1452).module_hierarchy)
top(Stack)::<unknown>.blocks(Sequential)::forward.1(Block)::forward.SELF(Block)::_inner.prim::GetAttr
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.accounting import Account, sizes
    from archive.converting import Conversion, convert
    from archive.errors import ArchiveError, LimitError
    from archive.limits import Limits
    from archive.migrating import Migration, migrate
    from archive.opening import open  # noqa: A004 (archive.open, like gzip.open)
    from archive.reader import Archive
    from archive.recognition import FileKind, Recognised, recognise
    from archive.shrinking import Shrinkage, restore, shrink
    from archive.splitting import Join, Split, join, split
    from archive.symbolicate import Style, Symbolication

_HOMES = {
    "Account": "accounting",
    "Archive": "reader",
    "ArchiveError": "errors",
    "Conversion": "converting",
    "FileKind": "recognition",
    "Join": "splitting",
    "LimitError": "errors",
    "Limits": "limits",
    "Migration": "migrating",
    "Recognised": "recognition",
    "Shrinkage": "shrinking",
    "Split": "splitting",
    "Style": "symbolicate",
    "Symbolication": "symbolicate",
    "convert": "converting",
    "join": "splitting",
    "migrate": "migrating",
    "open": "opening",
    "recognise": "recognition",
    "restore": "shrinking",
    "shrink": "shrinking",
    "sizes": "accounting",
    "split": "splitting",
}
__all__ = [
    "Account",
    "Archive",
    "ArchiveError",
    "Conversion",
    "FileKind",
    "Join",
    "LimitError",
    "Limits",
    "Migration",
    "Recognised",
    "Shrinkage",
    "Split",
    "Style",
    "Symbolication",
    "convert",
    "join",
    "migrate",
    "open",
    "recognise",
    "restore",
    "shrink",
    "sizes",
    "split",
]


def __getattr__(name: str) -> object:
    """Find a public name when it is first used, so that importing the package costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
