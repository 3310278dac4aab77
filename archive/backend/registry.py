"""The backends that modules can be lowered to, by name.

Backends of other distributions are entry points of the group ``archive.backends``: the name of the entry
point is that of the backend, and it refers to a :class:`Backend`. They are imported when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol

from archive.backend.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.backend.graph.graphs import Graph, Operation, Schema

    GenerateDebugHandles = Callable[[Graph], dict[Operation, int]]
    Preprocess = Callable[["Original", dict[str, Any], GenerateDebugHandles], Any]

ENTRY_POINT_GROUP = "archive.backends"
BUILT_IN = {
    "aten": "archive.backend.aten.backend:ATEN",
    "backend_with_compiler_demo": "archive.backend.demo.backend:COMPILER_DEMO",
}
"""The backends of this library, by name: where each stands, written as entry points are."""


class Link(StrEnum):
    """How a backend is attached to the modules that are lowered to it.

    What is written in TorchScript runs in stock PyTorch, which needs nothing of this library.
    """

    CLASS = "class"
    """The runtime is a TorchScript class. Stock TorchScript runs it; the lite interpreter has no classes."""

    INLINE = "inline"
    """The runtime's methods become methods of the lowered module. Both interpreters run it."""

    AHEAD_OF_TIME = "ahead of time"
    """Each operation becomes a statement of its own, and has a handle of its own. Both run it."""


@dataclass(frozen=True, slots=True)
class Original:
    """A module that is to be lowered.

    Attributes:
        type_name: its qualified class.
        graphs: for each method to lower its graph, with all calls followed.
        schemas: of these methods, the module itself being their first argument.
    """

    type_name: str
    graphs: Mapping[str, Graph]
    schemas: Mapping[str, Schema]


class Runtime(Protocol):
    """What compiles and executes in the process that runs a lowered module: one instance a module.

    It is a class, made without arguments, whose ``is_available`` is in TorchScript's language; for the links
    ``class`` and ``inline`` all of it is. (An operator of C++ that ``is_available`` asks must be declared to
    have side effects, or TorchScript takes its first answer for a constant.)

    A runtime in TorchScript's language may end a run by ``return self.fail(message)``: its own method
    ``fail(self, message: str) -> torch.Tensor`` raises. The link ``inline`` puts another one in its place: it
    fails where ``last_handle`` comes from, so that stock PyTorch shows that source. What it returns must be
    used, or TorchScript leaves the call out.

    A runtime that can be profiled has besides ``profiling: bool``, set by whoever wants that, and
    ``operations``, a list to which it then appends ``(start ns, end ns, debug handle, operator's name)``; it
    may have ``memory``, a list for ``(time ns, debug handle, bytes, bytes in all, address)`` of each storage
    that results have, when it is made and freed, or None. The clock is that of ``time.perf_counter_ns`` and
    ``torch.ops.prim.TimePoint``.

    Attributes:
        last_handle: handle of the operation that runs, or has failed; -1 when none does: ``execute`` puts it
            back when it ends well.
    """

    last_handle: int

    def is_available(self) -> bool:
        """Whether this process can compile and execute."""

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
        """Something to execute for each method, of what preprocessing made.

        Raises:
            ArchiveError: it is not what this backend's preprocessing makes. In TorchScript's language, which
                has none, an ``AssertionError`` or ``RuntimeError`` says so.
        """

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401
        """Run what was compiled for a method; the results, those of a tuple one by one.

        Raises:
            OperationError: an operation failed. Other errors are taken to be those of ``last_handle``.
        """


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend.

    Attributes:
        name: what it is registered as; part of the names of lowered classes.
        preprocess: ``(original, method_compile_spec, generate_debug_handles)`` -> what is kept in the
            archive: a value of TorchScript; for the link ``ahead of time`` an
            :class:`~archive.backend.lower.ahead.Ahead`. It raises :class:`LoweringError` for what it cannot
            compile.
        runtime: the class of its :class:`Runtime`.
        link: how it is attached.

    Raises:
        LoweringError: the name is no identifier, or the runtime no class.
    """

    name: str
    preprocess: Preprocess
    runtime: type[Runtime]
    link: Link = Link.INLINE

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise LoweringError(f"expected a backend's name to be an identifier, found {self.name!r}")
        if not isinstance(self.runtime, type):
            raise LoweringError(f"expected the runtime of {self.name} to be a class, found {self.runtime!r}")


_registered: dict[str, Backend] = {}


def register_backend(
    name: str,
    *,
    preprocess: Preprocess,
    runtime: type[Runtime],
    link: Link | str = Link.INLINE,
) -> Backend:
    """Register a backend for this process; see :class:`Backend`.

    Raises:
        LoweringError: the name is taken, or what is given makes no :class:`Backend`.
        ValueError: there is no such link.
    """
    made = Backend(name, preprocess, runtime, Link(link))
    if name in _registered or name in BUILT_IN:
        raise LoweringError(
            f"Preprocessing function for backend {name} is already registered. "
            "Ensure that registration is only called once."
        )
    _registered[name] = made
    return made


def unregister_backend(name: str) -> None:
    """Forget a backend that was registered in this process.

    Raises:
        LoweringError: none is registered by this name.
    """
    if _registered.pop(name, None) is None:
        raise _missing(name)


def find_backend(name: str) -> Backend:
    """The backend of a name: registered, of this library, or of an entry point.

    Raises:
        LoweringError: there is none, or its entry point refers to something else, or to nothing.
    """
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        built_in: Backend = EntryPoint(name, BUILT_IN[name], ENTRY_POINT_GROUP).load()
        return built_in
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            found = point.load()
        except Exception as error:  # whatever a foreign module raises
            raise LoweringError(
                f"entry point {name} of {ENTRY_POINT_GROUP} ({point.value}): {error}"
            ) from error
        if not isinstance(found, Backend) or found.name != name:
            raise LoweringError(
                f"expected entry point {name} of {ENTRY_POINT_GROUP} to be a Backend {name}, found {found!r}"
            )
        return _registered.setdefault(name, found)
    raise _missing(name)


def backend_names() -> list[str]:
    """The names of all backends that can be found."""
    return sorted({*_registered, *BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def _missing(name: str) -> LoweringError:
    return LoweringError(f"Preprocessing function for backend {name} is not registered.")
