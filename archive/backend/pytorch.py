"""Facts about PyTorch: archives that it writes for a moment, and what it says."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import format_exception_only
from typing import TYPE_CHECKING

import torch

from archive.backend.errors import OperationError
from archive.base.errors import ArchiveError, one_line, several
from archive.debuginfo.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.debuginfo.model import SourceRange

NAME = "archive"
"""The name that PyTorch gives to archives in memory; a file's name is part of its records' names."""


@contextmanager
def temporary_archive(module: torch.jit.ScriptModule, *, lite: bool = False) -> Iterator[Path]:
    """The archive of a module as PyTorch writes it, in the folder for temporary files.

    In memory, it would take twice the model's size.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        if lite:
            module._save_for_lite_interpreter(str(path), _save_mobile_debug_info=True)
        else:
            torch.jit.save(module, path)
        yield path


INTERPRETER = "The following operation failed in the TorchScript interpreter."
"""The first line of errors in TorchScript, whose last line is the message; other errors begin with it."""
RAISED = "builtins.Exception: "
"""What stands before the message of an error that code of TorchScript raises."""


def shown(span: SourceRange | None, whole: bytes | None = None) -> str:
    """The text by which PyTorch shows a range; "" without one. See ``excerpt`` for ``whole``."""
    return "" if span is None else excerpt(span, b"", whole).decode("utf-8", "backslashreplace")


def message_of(error: Exception) -> str:
    """The message of an error of PyTorch in one line, without the tracebacks of TorchScript around it."""
    first, *others = str(error).strip().splitlines() or [type(error).__name__]
    return others[-1] if others and first.startswith(INTERPRETER) else first


AS_OPTION = "; a Tensor is given by its sizes and type, as in --input 2x3:float32"
"""Beside an argument that is no tensor: ``--input 8`` is a number."""
IMPORTING = (
    "if a module registers it, import that before: "
    "python -c 'import MODULE; from archive.cli import main; main()' …"
)
"""How this package's commands know a backend or an operator that a Python module registers."""
UNREGISTERED = re.compile(
    r"Unknown builtin op: (?P<script>[\w:]+)"
    r"|Following ops cannot be found: \[(?P<lite>[\w:., ]+)\]"
    r"|failed to resolve torch\.ops\.(?P<program>[\w.]+) to an operator"
)
"""An operator that nobody has registered, as TorchScript, the lite interpreter and programs say it."""


def not_loaded(error: Exception, file: str, what: str = "it") -> ArchiveError:
    """The refusal of what PyTorch does not load; with the way out, if an operator is not registered.

    Args:
        what: a part of the file, in its place.
    """
    found = UNREGISTERED.search(str(error))
    if found is None:
        why = one_line(message_of(error))
    else:
        names = sorted((found["script"] or found["lite"] or found["program"]).split(", "))
        why = f"it knows no operator {several(names, word='or')}; {IMPORTING}"
    return ArchiveError(f"PyTorch does not load {what}: {why}", file=file)


def said_by(error: Exception) -> str:
    """What an error of a backend says: its message, and before it its type, as Python prints both.

    Types that say nothing are left out: those of PyTorch's own errors, of ``fail``, of this library's.

    >>> said_by(KeyError(0)), said_by(RuntimeError("expected float32")), said_by(AssertionError())
    ('KeyError: 0', 'expected float32', 'AssertionError')
    """
    text = str(error) if type(error) in (RuntimeError, AssertionError, torch.jit.Error) else ""
    if isinstance(error, OperationError | ArchiveError):
        text = str(error)
    return text or "".join(format_exception_only(error)).removesuffix("\n")
