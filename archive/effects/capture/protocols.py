"""The parts of a captured call, as its other parts see them.

The parts need one another: to wrap a value may be to copy a function, whose globals are wrapped when they are
read, and may be objects with methods to copy. To keep them apart, each part knows the call alone, and reaches
the others through these protocols, which ``attempt`` fills in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CellType, FunctionType, ModuleType

    from archive.effects.capture.sites import Statement
    from archive.formats.effects.model import ClosureCell, GlobalName, Source


class Wrap(Protocol):
    """Wraps values: the model gets a proxy, or the value itself if nobody can change it."""

    def __call__(self, value: Any, source: Source | None) -> Any:  # noqa: ANN401
        """Wrap a value, given its source; None for a value that is the same in each call."""


class FunctionCopies(Protocol):
    """Copies of the model's functions, with globals and cells of their own."""

    @property
    def numbers(self) -> Mapping[type, object]:
        """The proxies of ``int``, ``float``, ``bool`` and ``list``."""

    @property
    def types(self) -> Mapping[type, Any]:
        """These, and the proxies of ``list``, ``dict`` and the like."""

    @property
    def mathematics(self) -> Any:  # noqa: ANN401
        """The proxy of ``math``; its ``of`` gives those of its functions."""

    @property
    def compares(self) -> Statement | None:
        """The first statement met that asks which values are the same object; None if there is none."""

    def copy(self, function: Any) -> Any:  # noqa: ANN401
        """The copy of a function."""

    def original(self, copy: object) -> FunctionType | None:
        """The function that a copy is of; None if it is no copy."""

    def source_of(self, cell: CellType) -> ClosureCell | None:
        """The source of a cell of copies; None for a cell that the call has made."""

    def namespace(self, module: ModuleType) -> object:
        """The proxy of a Python module of the model."""

    def settle(self) -> None:
        """Note what the code that runs now has stored in globals and cells."""

    def stored_globals(self) -> Iterator[tuple[dict[str, Any], str, object]]:
        """The globals that were stored: the real globals, the name, the value."""

    def cells(self) -> Iterator[tuple[CellType, CellType]]:
        """The real cells, and those of the copies."""

    def names(self, module: str) -> dict[str, Any] | None:
        """The real globals of a Python module; None if no function of it was met."""

    def real(self, source: GlobalName | ClosureCell) -> object:
        """The value of a global or a cell, whatever calls have put there; ``ABSENT`` if it has none."""


class ObjectProxies(Protocol):
    """Proxies of objects and classes: attributes are read from the snapshot, and stored in the table."""

    def new_proxy(self, cls: type) -> Any:  # noqa: ANN401
        """A proxy for an object of a class."""

    def class_of(self, proxy: object) -> Any:  # noqa: ANN401
        """The class that ``type`` gives for a proxy."""

    def real_of(self, cls: Any) -> Any:  # noqa: ANN401
        """The class behind a class's proxy; other classes as they are."""

    def load(self, proxy: Any, name: str, *, custom: bool = False) -> Any:  # noqa: ANN401
        """Read an attribute."""

    def load_class(self, proxy: Any, cls: type, name: str) -> Any:  # noqa: ANN401
        """Read an attribute of a class, through the class's proxy."""

    def save_class(self, cls: type, name: str, value: object) -> None:
        """Set an attribute of a class; the value ``DELETED`` deletes it."""

    def load_super(self, cls: type, proxy: Any, name: str) -> Any:  # noqa: ANN401
        """Read the attribute that ``super(cls, proxy)`` finds."""

    def load_own(self, proxy: Any, name: str) -> Any:  # noqa: ANN401
        """Read an object's own attribute, past its class's properties."""

    def save(self, proxy: Any, name: str, value: object, *, custom: bool = False) -> None:  # noqa: ANN401
        """Set an attribute; ``custom``: past the class's own ``__setattr__``."""

    def remove(self, proxy: Any, name: str, *, custom: bool = False) -> None:  # noqa: ANN401
        """Delete an attribute."""

    def make(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Make a new object of a class."""


class KeptCalls(Protocol):
    """Calls that the table keeps: of ``print``, loggers and ``warnings.warn``."""

    @property
    def printed(self) -> Callable[..., None]:
        """Note a call of ``print``."""

    def note(self, function: GlobalName, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Note a call, to be made again at replay."""

    def in_place_of(self, value: object) -> Any:  # noqa: ANN401
        """The proxy of ``logging``, ``warnings``, a logger or a function of them; None for other values."""
