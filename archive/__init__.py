"""The debug information inside PyTorch model archives: read, symbolicated and written without PyTorch.

>>> import archive
>>> with archive.open("fixtures/oracles/plain_stack.ptl") as a:
...     print(a.symbolicate(1452).module_hierarchy)
top(Stack)::<unknown>.blocks(Sequential)::forward.1(Block)::forward.SELF(Block)::_inner.prim::GetAttr

Whatever reads bytes raises :class:`ArchiveError`, with the place, for what is wrong in them, its subclass
:class:`LimitError` where a file asks for more than its :class:`Limits`, and `OSError` where a file cannot be
read or written; nothing else leaves a public function. Docstrings below the public names do not repeat this.
"""

from __future__ import annotations

import importlib

__version__ = "0.2.0"
__distribution__ = "debug-archive"  # by which `debug_archive` knows this package
_PUBLIC = {
    "app.batch": ("batch",),
    "app.explaining": ("Explainer", "ExplainerStats", "explain"),
    "app.install": ("Hooks", "install"),
    "backend.values.running": ("Run", "run"),
    "base.errors": ("ArchiveError", "LimitError"),
    "base.limits": ("Limits",),
    "batches.outcome": ("Outcome", "OutcomeKind"),
    "check.verify": ("Diagnostic", "verify"),
    "compare.diff": ("Change", "Diff", "Level", "TensorChange", "TextChange", "diff"),
    "compare.digest": ("Digest", "digest"),
    "debuginfo.symbolicate": ("Style", "Symbolication"),
    "describe.runtime.profile": ("RuntimeProfile", "profile_etdump"),
    "describe.sizes": ("Account", "sizes"),
    "page.report": ("Report", "report"),
    "privacy.leaks": ("Finding", "LeakKind", "Leaks", "leaks"),
    "privacy.redact": ("Redaction", "redact"),
    "privacy.redact.companions": ("CompanionRedaction", "redact_companion"),
    "privacy.review": ("Review", "ReviewFile", "ReviewRow", "ReviewTable", "read_review", "review"),
    "privacy.redact.checkpoints": ("CheckpointRedaction", "redact_checkpoint"),
    "privacy.redact.metadata": ("MetadataRedaction", "redact_metadata"),
    "reader.archive": ("Archive",),
    "reader.opening": ("open",),
    "reader.recognition": ("FileKind", "Recognised", "recognise"),
    "rewrite.canonicalise": ("Canonical", "canonicalise"),
    "rewrite.convert": ("Conversion", "convert"),
    "rewrite.join": ("Join", "join", "restore"),
    "rewrite.migrate.migrate": ("Migration", "migrate"),
    "rewrite.shrink": ("Shrinkage", "shrink"),
    "rewrite.split": ("Split", "split"),
}
"""The public names of each module; ``__init__.pyi``, which type checkers read, is made of them."""
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = sorted(_HOMES)  # noqa: PLE0605 (type checkers read the stub)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that importing the package costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
