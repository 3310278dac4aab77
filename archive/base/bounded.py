"""The boundary of the library: callers get ``LimitError`` where a file asks for too much.

That is more than its allowance (:mod:`archive.base.memory`), or all memory or stack that the interpreter has.
"""

from __future__ import annotations

import os
from functools import wraps
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from archive.base import memory
from archive.base.errors import ArchiveError, ExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
ClassT = TypeVar("ClassT", bound=type)

EXHAUSTED = (MemoryError, RecursionError)


def bounded(call: Callable[P, ResultT]) -> Callable[P, ResultT]:
    """A public function that raises a :class:`LimitError` if memory or the interpreter's stack runs out.

    The error names the file: the first argument, if that is a path or has a name of its own. If that has an
    allowance, the function asks it. A generator function is bounded while it yields.
    """
    if isgeneratorfunction(call):
        return cast("Callable[P, ResultT]", _bounded_generator(memory.asking(call)))

    @wraps(call)
    def within_bounds(*arguments: P.args, **named: P.kwargs) -> ResultT:
        token = memory.entered(arguments)
        try:
            return call(*arguments, **named)
        except EXHAUSTED as error:
            raise _exhausted(error, arguments) from error.with_traceback(None)
        finally:
            if token is not None:  # nearly never, and this is called often
                memory.left(token)

    return within_bounds


def _bounded_generator(call: Any) -> Any:  # noqa: ANN401 (its type is that of its caller)
    @wraps(call)
    def within_bounds(*arguments: object, **named: object) -> object:
        try:
            yield from call(*arguments, **named)
        except EXHAUSTED as error:
            raise _exhausted(error, arguments) from error.with_traceback(None)

    return within_bounds


def _exhausted(error: MemoryError | RecursionError, arguments: tuple[object, ...]) -> ArchiveError:
    """The error for callers. It has no traceback, whose frames would hold the missing memory."""
    first = arguments[0] if arguments else None
    file = os.fsdecode(first) if isinstance(first, str | os.PathLike) else getattr(first, "file", None)
    return ExhaustedError.of(error).within(file=file if isinstance(file, str) else None)


def bounded_members(cls: ClassT) -> ClassT:
    """Make all public methods and properties of a class :func:`bounded`, and those that return it as text."""
    return memory.with_members(cls, bounded)
