"""Where an operation comes from: its own range, and the calls on the way to it."""

from __future__ import annotations

from dataclasses import dataclass

SELF = "SELF"
"""TorchScript's name for a module that calls a method of its own, in place of the attribute that holds it."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a source.

    Attributes:
        text: of the source.
        filename: its file.
        line: the line of the text's first one in it, from 1.
        start: first byte in the text.
        end: the byte behind the last one.
    """

    text: bytes
    filename: bytes
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Step:
    """One call on the way to an operation.

    Attributes:
        function: what is called.
        type_name: qualified class of the module whose method it is; None for functions.
        instance: attribute that holds the module; None for functions.
        span: the call itself, in the caller; None where that is not known.
    """

    function: str
    type_name: str | None
    instance: str | None
    span: Span | None


@dataclass(frozen=True, slots=True)
class Site:
    """Where an operation comes from.

    Attributes:
        op: the operator's name.
        span: its place; None where that is not known.
        steps: the calls on the way, outermost first.
    """

    op: str
    span: Span | None
    steps: tuple[Step, ...]
