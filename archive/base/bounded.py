"""The boundary of the library: if memory or the interpreter's stack runs out, callers get ``LimitError``."""

from __future__ import annotations

import os
from functools import cached_property, wraps
from inspect import isfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from archive.base.errors import ArchiveError, ExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
ClassT = TypeVar("ClassT", bound=type)

EXHAUSTED = (MemoryError, RecursionError)
READING = {"__bytes__", "__getitem__", "__str__"}
"""Special methods that read a file."""


def bounded(call: Callable[P, ResultT]) -> Callable[P, ResultT]:
    """A public function that raises a :class:`LimitError` if memory or the interpreter's stack runs out.

    The error names the file: the first argument, if that is a path or has a name of its own. A generator
    function is bounded while it yields.
    """
    if isgeneratorfunction(call):
        return cast("Callable[P, ResultT]", _bounded_generator(call))

    @wraps(call)
    def within_bounds(*arguments: P.args, **named: P.kwargs) -> ResultT:
        try:
            return call(*arguments, **named)
        except EXHAUSTED as error:
            raise _told(error, arguments) from error.with_traceback(None)

    return within_bounds


def _bounded_generator(call: Any) -> Any:  # noqa: ANN401 (its type is that of its caller)
    @wraps(call)
    def within_bounds(*arguments: object, **named: object) -> object:
        try:
            yield from call(*arguments, **named)
        except EXHAUSTED as error:
            raise _told(error, arguments) from error.with_traceback(None)

    return within_bounds


def _told(error: MemoryError | RecursionError, arguments: tuple[object, ...]) -> ArchiveError:
    """The error for callers. It has no traceback, whose frames would hold the missing memory."""
    first = arguments[0] if arguments else None
    file = os.fsdecode(first) if isinstance(first, str | os.PathLike) else getattr(first, "file", None)
    return ExhaustedError.of(error).within(file=file if isinstance(file, str) else None)


def bounded_members(cls: ClassT) -> ClassT:
    """Make all public methods and properties of a class :func:`bounded`, and those that return it as text."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in READING:
            continue
        if isinstance(member, cached_property):
            member.func = bounded(member.func)
        elif isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(bounded(member.fget), doc=member.__doc__))
        elif isfunction(member):
            setattr(cls, name, bounded(member))
    return cls
