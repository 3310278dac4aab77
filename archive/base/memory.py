"""The memory budget of the current file, its allowance, is a context variable, like the deadline.

Code that is about to create something whose size a file decides asks first: ``take`` for what stays in use,
``lent`` for what is gone at the end of a block. So a claim is refused before it takes anything. Which
allowance is asked, in the running thread or asyncio task:

- A file that is opened has an allowance of its own: ``with charged(limits.allowance(size))``. A file made
  from another one (an embedded companion, a result that is read again) shares that one's: it is opened where
  that is the current one.
- An opened file, and whatever else makes more of itself when it is asked for more, has an attribute
  ``allowance``: the one that was current when it was made. Public functions make that of their first
  argument the current one (:func:`~archive.base.bounded.bounded`), and so do functions that are
  :func:`asking`, and the members of a class that is ``bounded_members`` or :func:`kept`. A cached value is
  charged once, to the file it came from.
- In the library, a block that works on an opened file says so: ``charged(archive.allowance)``.
- A generator that changes the allowance between its yields is :func:`apart`: otherwise, its caller would get
  the change, too.

Outside of all these nothing is counted: not for what is made in this process from facts that nobody sent.
New threads begin there, too.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cached_property, wraps
from inspect import isfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from archive.base.limits import DEFAULT_LIMITS, Allowance, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextvars import Token

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
ClassT = TypeVar("ClassT", bound=type)

NUMBER, TEXT, ROW = 8, 256, 512
"""Bytes of memory of a number in a column; of a text besides its characters; of an object with some fields.

The latter two with their places in a list and a dict, and a tuple of what is noted of them.
"""
UNBOUNDED = 1 << 62
"""Bytes, more than there are."""
READING = {"__bytes__", "__getitem__", "__str__"}
"""Special methods that read a file."""

_CURRENT: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def current() -> Allowance:
    """The current allowance; one without bounds if there is none."""
    return _CURRENT.get() or Allowance(DEFAULT_LIMITS, UNBOUNDED)


def limits() -> Limits:
    """The bounds besides memory."""
    allowance = _CURRENT.get()
    return DEFAULT_LIMITS if allowance is None else allowance.limits


def take(count: int, what: str = "", *, record: str | None = None, place: str | None = None) -> None:
    """Ask for memory that stays in use: see :meth:`.Allowance.take`."""
    allowance = _CURRENT.get()
    if allowance is not None:
        allowance.take(count, what, record, place)


def give(count: int) -> None:
    """Return bytes that are no longer in use."""
    allowance = _CURRENT.get()
    if allowance is not None:
        allowance.give(count)


class lent:  # noqa: N801 (called like a function, like the two below)
    """Ask for memory that is in use until the block ends: arguments as for :func:`take`."""

    __slots__ = ("_allowance", "_count")

    def __init__(
        self, count: int, what: str = "", *, record: str | None = None, place: str | None = None
    ) -> None:
        self._allowance, self._count = _CURRENT.get(), count
        if self._allowance is not None:
            self._allowance.take(count, what, record, place)

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, *_: object) -> None:
        if self._allowance is not None:
            self._allowance.give(self._count)


class charged:  # noqa: N801
    """Make an allowance the current one for a block, which a generator may end in another context."""

    __slots__ = ("_allowance", "_former")

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance

    def __enter__(self) -> Allowance:
        self._former = _CURRENT.get()
        _CURRENT.set(self._allowance)
        return self._allowance

    def __exit__(self, *_: object) -> None:
        _CURRENT.set(self._former)


class part:  # noqa: N801
    """A separate allowance for a block: everything taken from it is returned at the end."""

    __slots__ = ("_allowance", "_former", "_whole")

    def __enter__(self) -> Allowance:
        self._former = _CURRENT.get()
        self._whole = whole = self._former or current()
        self._allowance = Allowance(whole.limits, whole.memory, whole)
        _CURRENT.set(self._allowance)
        return self._allowance

    def __exit__(self, *_: object) -> None:
        _CURRENT.set(self._former)
        self._whole.give(self._allowance.taken)


# --- who asks which allowance


def asking(call: Callable[P, ResultT]) -> Callable[P, ResultT]:
    """A function that asks the allowance of its first argument, if that has one."""
    if isgeneratorfunction(call):
        return cast("Callable[P, ResultT]", _steps_asking(call))

    @wraps(call)
    def charging(*arguments: P.args, **named: P.kwargs) -> ResultT:
        token = entered(arguments)
        if token is None:  # nearly all calls, many of which are short
            return call(*arguments, **named)
        try:
            return call(*arguments, **named)
        finally:
            _CURRENT.reset(token)

    return charging


def entered(arguments: tuple[object, ...]) -> Token[Allowance | None] | None:
    """Make the allowance of a first argument the current one; what :func:`left` takes, if it was not yet."""
    allowance = getattr(arguments[0], "allowance", None) if arguments else None
    if allowance is None or allowance is _CURRENT.get() or not isinstance(allowance, Allowance):
        return None
    return _CURRENT.set(allowance)


def left(token: Token[Allowance | None] | None) -> None:
    """Make the former allowance the current one again."""
    if token is not None:
        _CURRENT.reset(token)


def _steps_asking(call: Any) -> Any:  # noqa: ANN401 (its type is that of its caller)
    @wraps(call)
    def charging(*arguments: object, **named: object) -> object:
        token = entered(arguments)
        try:
            return _steps(call(*arguments, **named), _CURRENT.get())
        finally:
            left(token)

    return charging


def apart(call: Callable[P, Iterator[ResultT]]) -> Callable[P, Iterator[ResultT]]:
    """A generator function whose caller keeps its own allowance, whatever the generator does."""

    @wraps(call)
    def stepping(*arguments: P.args, **named: P.kwargs) -> Iterator[ResultT]:
        return _steps(call(*arguments, **named), _CURRENT.get())

    return stepping


def _steps(steps: Iterator[ResultT], own: Allowance | None) -> Iterator[ResultT]:
    """The items of a generator, each made with the generator's own allowance as the current one."""
    try:
        while True:
            token = _CURRENT.set(own)
            try:
                item = next(steps)
            except StopIteration:
                return
            finally:
                own = _CURRENT.get()
                _CURRENT.reset(token)
            yield item
    finally:
        token = _CURRENT.set(own)
        cast("Generator[ResultT, None, None]", steps).close()
        _CURRENT.reset(token)


def kept(cls: ClassT) -> ClassT:
    """Let all public members of a class ask its ``allowance``."""
    return with_members(cls, asking)


def with_members(cls: ClassT, of: Callable[[Any], Any]) -> ClassT:
    """A class whose public methods and properties, and those that read a file, are replaced."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in READING:
            continue
        if isinstance(member, cached_property):
            member.func = of(member.func)
        elif isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(of(member.fget), doc=member.__doc__))
        elif isfunction(member):
            setattr(cls, name, of(member))
    return cls
