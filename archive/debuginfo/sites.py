"""Names of source files; and the origin of an operation: its own range, and the calls leading to it."""

from __future__ import annotations

import re

from archive.base.quick_dataclass import dataclass

SELF = "SELF"
"""TorchScript's name for a module that calls a method of its own, in place of the attribute that holds it."""
GENERATED_FILE = "<string>"
"""The filename that PyTorch records for source that was compiled from a string."""
FX_FILE = "<eval_with_key>"
"""Begins the filename of code that ``torch.fx`` generated; a number unique in the process follows."""
NO_FILE = b"?"
"""Replaces the name of every file in what ``redact --paths none`` made."""
SEPARATOR = re.compile(rb"[/\\]")
"""Separates the parts of a path, on Linux or Windows."""
LOCAL = re.compile(r"(?<![^.])[^.]++\.<locals>\.")
"""Matches a function in the qualified name of a class that is local to it."""


def torchscript_name(of: type | str) -> str:
    """The TorchScript name of a Python class, as ``torch._jit_internal._qualified_name`` makes it.

    It has no ``__main__``, and nothing of the functions and classes around the class. A text, which is
    ``module.qualname``, does not say which part is the module: classes around the class stay in it.

    >>> torchscript_name("__main__.make.<locals>.Model")
    '__torch__.Model'
    """
    name = LOCAL.sub("", of) if isinstance(of, str) else f"{of.__module__}.{of.__name__}"
    return f"__torch__.{name.removeprefix('__main__.')}"


def last_part(path: bytes) -> bytes:
    """The last part of a path."""
    return SEPARATOR.split(path)[-1]


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a source.

    Attributes:
        text: the source's text.
        filename: its file.
        line: the 1-based line of the file on which the text begins.
        start: first byte in the text.
        end: the byte after the last one.
        owner: the debug handle of the only operation that this row is for; -1 for any. Equal ranges with two
            owners have two tags.
    """

    text: bytes
    filename: bytes
    line: int
    start: int
    end: int
    owner: int = -1

    @property
    def first_line(self) -> int:
        """The 1-based line of the file on which the range begins."""
        return self.line + self.text.count(b"\n", 0, self.start)

    @property
    def line_text(self) -> bytes:
        """The line on which the range begins, without its end."""
        return self.text[self.text.rfind(b"\n", 0, self.start) + 1 :].partition(b"\n")[0]


@dataclass(frozen=True, slots=True)
class CallStep:
    """One call leading to an operation.

    Attributes:
        function: the called function's name.
        type_name: qualified class name of the module whose method it is; None for functions.
        instance: attribute that holds the module; None for functions.
        span: the range of the call, in the caller; None if unknown.
    """

    function: str
    type_name: str | None
    instance: str | None
    span: Span | None


@dataclass(frozen=True, slots=True)
class Site:
    """The origin of an operation.

    Attributes:
        op: the operator's name.
        span: its own range; None if unknown.
        steps: the calls leading to it, outermost first.
    """

    op: str
    span: Span | None
    steps: tuple[CallStep, ...]
