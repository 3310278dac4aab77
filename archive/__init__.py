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
    from archive.check.verify import Diagnostic, verify
    from archive.compare.diff import Change, Diff, Level, TensorChange, TextChange, diff
    from archive.compare.digest import Digest, digest
    from archive.debuginfo.symbolicate import Style, Symbolication
    from archive.describe.sizes import Account, sizes
    from archive.failures.models.explaining import Explainer, explain
    from archive.privacy.leaks import Finding, LeakKind, Leaks, leaks
    from archive.privacy.redact import Redaction, redact
    from archive.privacy.redact.companions import CompanionRedaction, redact_companion
    from archive.reader.archive import Archive
    from archive.reader.opening import open  # noqa: A004 (archive.open, like gzip.open)
    from archive.reader.recognition import FileKind, Recognised, recognise
    from archive.rewrite.canonicalise import Canonical, canonicalise
    from archive.rewrite.convert import Conversion, convert
    from archive.rewrite.migrate.migrate import Migration, migrate
    from archive.rewrite.shrink import Shrinkage, restore, shrink
    from archive.rewrite.split import Join, Split, join, split

__version__ = "0.1.0"
_HOMES = {
    "Account": "describe.sizes",
    "Archive": "reader.archive",
    "ArchiveError": "base.errors",
    "Canonical": "rewrite.canonicalise",
    "Change": "compare.diff",
    "CompanionRedaction": "privacy.redact.companions",
    "Conversion": "rewrite.convert",
    "Diagnostic": "check.verify",
    "Diff": "compare.diff",
    "Digest": "compare.digest",
    "Explainer": "failures.models.explaining",
    "FileKind": "reader.recognition",
    "Finding": "privacy.leaks",
    "Join": "rewrite.split",
    "LeakKind": "privacy.leaks",
    "Leaks": "privacy.leaks",
    "Level": "compare.diff",
    "LimitError": "base.errors",
    "Limits": "base.limits",
    "Migration": "rewrite.migrate.migrate",
    "Outcome": "batches.outcome",
    "OutcomeKind": "batches.outcome",
    "Recognised": "reader.recognition",
    "Redaction": "privacy.redact",
    "Shrinkage": "rewrite.shrink",
    "Split": "rewrite.split",
    "Style": "debuginfo.symbolicate",
    "Symbolication": "debuginfo.symbolicate",
    "TensorChange": "compare.diff",
    "TextChange": "compare.diff",
    "batch": "batches.batch",
    "canonicalise": "rewrite.canonicalise",
    "convert": "rewrite.convert",
    "diff": "compare.diff",
    "digest": "compare.digest",
    "explain": "failures.models.explaining",
    "join": "rewrite.split",
    "leaks": "privacy.leaks",
    "migrate": "rewrite.migrate.migrate",
    "open": "reader.opening",
    "recognise": "reader.recognition",
    "redact": "privacy.redact",
    "redact_companion": "privacy.redact.companions",
    "restore": "rewrite.shrink",
    "shrink": "rewrite.shrink",
    "sizes": "describe.sizes",
    "split": "rewrite.split",
    "verify": "check.verify",
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
