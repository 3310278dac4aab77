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
    from archive.base.errors import ArchiveError, LimitError
    from archive.base.limits import Limits
    from archive.batches.batch import batch
    from archive.batches.outcome import Outcome, OutcomeKind
    from archive.debuginfo.symbolicate import Style, Symbolication
    from archive.fleet.explaining import Explainer, explain
    from archive.reader.archive import Archive
    from archive.reader.opening import open  # noqa: A004 (archive.open, like gzip.open)
    from archive.reader.recognition import FileKind, Recognised, recognise
    from archive.verbs.canonicalise import Canonical, canonicalise
    from archive.verbs.convert import Conversion, convert
    from archive.verbs.diff import Change, Diff, Level, TensorChange, TextChange, diff
    from archive.verbs.digest import Digest, digest
    from archive.verbs.leaks import Finding, LeakKind, Leaks, leaks
    from archive.verbs.migrate.migrate import Migration, migrate
    from archive.verbs.redact import Redaction, redact
    from archive.verbs.redact.companions import CompanionRedaction, redact_companion
    from archive.verbs.shrink import Shrinkage, restore, shrink
    from archive.verbs.sizes import Account, sizes
    from archive.verbs.split import Join, Split, join, split
    from archive.verbs.verify import Diagnostic, verify

__version__ = "0.1.0"
_HOMES = {
    "Account": "verbs.sizes",
    "Archive": "reader.archive",
    "ArchiveError": "base.errors",
    "Canonical": "verbs.canonicalise",
    "Change": "verbs.diff",
    "CompanionRedaction": "verbs.redact.companions",
    "Conversion": "verbs.convert",
    "Diagnostic": "verbs.verify",
    "Diff": "verbs.diff",
    "Digest": "verbs.digest",
    "Explainer": "fleet.explaining",
    "FileKind": "reader.recognition",
    "Finding": "verbs.leaks",
    "Join": "verbs.split",
    "LeakKind": "verbs.leaks",
    "Leaks": "verbs.leaks",
    "Level": "verbs.diff",
    "LimitError": "base.errors",
    "Limits": "base.limits",
    "Migration": "verbs.migrate.migrate",
    "Outcome": "batches.outcome",
    "OutcomeKind": "batches.outcome",
    "Recognised": "reader.recognition",
    "Redaction": "verbs.redact",
    "Shrinkage": "verbs.shrink",
    "Split": "verbs.split",
    "Style": "debuginfo.symbolicate",
    "Symbolication": "debuginfo.symbolicate",
    "TensorChange": "verbs.diff",
    "TextChange": "verbs.diff",
    "batch": "batches.batch",
    "canonicalise": "verbs.canonicalise",
    "convert": "verbs.convert",
    "diff": "verbs.diff",
    "digest": "verbs.digest",
    "explain": "fleet.explaining",
    "join": "verbs.split",
    "leaks": "verbs.leaks",
    "migrate": "verbs.migrate.migrate",
    "open": "reader.opening",
    "recognise": "reader.recognition",
    "redact": "verbs.redact",
    "redact_companion": "verbs.redact.companions",
    "restore": "verbs.shrink",
    "shrink": "verbs.shrink",
    "sizes": "verbs.sizes",
    "split": "verbs.split",
    "verify": "verbs.verify",
}
"""The module of each public name."""
__all__ = [
    "Account",
    "Archive",
    "ArchiveError",
    "Canonical",
    "Change",
    "CompanionRedaction",
    "Conversion",
    "Diagnostic",
    "Diff",
    "Digest",
    "Explainer",
    "FileKind",
    "Finding",
    "Join",
    "LeakKind",
    "Leaks",
    "Level",
    "LimitError",
    "Limits",
    "Migration",
    "Outcome",
    "OutcomeKind",
    "Recognised",
    "Redaction",
    "Shrinkage",
    "Split",
    "Style",
    "Symbolication",
    "TensorChange",
    "TextChange",
    "batch",
    "canonicalise",
    "convert",
    "diff",
    "digest",
    "explain",
    "join",
    "leaks",
    "migrate",
    "open",
    "recognise",
    "redact",
    "redact_companion",
    "restore",
    "shrink",
    "sizes",
    "split",
    "verify",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that importing the package costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
