"""Finds backends by name: those of this library, of other distributions, and those registered in the process.

Backends of other distributions are entry points of the group ``archive.backends``. An entry point has the
backend's name and refers to a :class:`Backend`, which is imported when it is first asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol

from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

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
    """The way in which a lowered module runs its backend in stock PyTorch, without this library."""

    INLINE = "inline"
    """The runtime's methods become methods of the lowered module."""

    AHEAD_OF_TIME = "ahead of time"
    """Each operation becomes a statement with a debug handle of its own."""


@dataclass(frozen=True, slots=True)
class Original:
    """A module to lower, or a partition of an exported program.

    Attributes:
        type_name: its qualified class.
        graphs: the graph of each method to lower, with all calls followed. That of a partition is made when
            it is first asked for, which raises a :class:`LoweringError` for what graphs do not have.
        schemas: the schemas of these methods; their first argument is ``self``.
        program: the partition, a ``torch.export.ExportedProgram`` whose lowered nodes have a debug handle
            each, ``node.meta["debug_handle"]``; None for a module. Its inputs are tensors, and sizes that are
            known only when it runs; its results are tensors.
    """

    type_name: str
    graphs: Mapping[str, Graph]
    schemas: Mapping[str, Schema]
    program: torch.export.ExportedProgram | None = None


class Runtime(Protocol):
    """Compiles and executes a state; each lowered module has an instance of its own.

    A runtime is a class with a constructor without arguments. Its ``is_available`` is written in
    TorchScript's language; for the link ``inline``, so is the whole class. (If
    ``is_available`` calls a C++ operator, this must be declared to have side effects, as ``CONSERVATIVE``:
    otherwise TorchScript takes its first answer for a constant.)

    A runtime in TorchScript's language runs PyTorch's operators in its method ``operate``, whose parameters
    are up to it. The link ``inline`` copies the statements of this method for each operation, so that they
    fail at the source of the operation ``last_handle``, and stock PyTorch shows that source. (Functions that
    ``operate`` calls are not copied: PyTorch shows their lines after the model's.) If it has a parameter
    ``kind: str``, the kind of the operation, each copy has only those branches ``if kind == "aten::add"``
    that it takes, which keeps archives small.

    Such a runtime may end a run by ``return self.fail(message)``, where its method
    ``fail(self, message: str) -> torch.Tensor`` raises. The link ``inline`` has it fail at the same source.
    Its result must be used, because TorchScript removes calls whose results are unused.

    A runtime that can be profiled has two more attributes. While ``profiling: bool`` is true, it appends
    ``(start ns, end ns, debug handle, operator's name)`` of each operation to the list ``operations``. It may
    also have ``memory``, None or a list: to that it appends ``(time ns, debug handle, bytes, bytes in all,
    address)`` for each storage of a result, when it is made and, with negative bytes, when it is freed. With
    a true ``of_allocator``, it does so for all that PyTorch's allocator gives and takes back. Times are those
    of ``time.perf_counter_ns`` and ``torch.ops.prim.TimePoint``. It may also have ``values``, None or a
    :class:`~archive.backend.recording.CallValues`, whose ``note`` it calls after each operation of PyTorch.

    Attributes:
        last_handle: debug handle of the operation that runs, or has failed; otherwise -1, which ``execute``
            restores when it returns.
    """

    last_handle: int

    def is_available(self) -> bool:
        """Whether this process can compile and execute."""

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
        """Compile a state.

        Args:
            processed: the result of preprocessing.
            method_compile_spec: the options of each method.

        Returns:
            For each method something that :meth:`execute` takes.

        Raises:
            ArchiveError: ``processed`` isn't a state of this backend. A runtime in TorchScript's language
                raises an ``AssertionError`` or ``RuntimeError`` instead. Any error counts as one of the
                operation ``last_handle``, if it isn't -1.
        """

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401
        """Run a method.

        Args:
            handle: what :meth:`compile` gave for the method.
            inputs: the method's arguments.

        Returns:
            The method's results; a returned tuple gives one result for each element.

        Raises:
            OperationError: an operation failed. Any other error counts as one of the operation
                ``last_handle``.
        """


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend.

    Attributes:
        name: the name by which it is found; part of the names of lowered classes.
        preprocess: ``(original, method_compile_spec, generate_debug_handles)`` -> the state that the archive
            keeps, a TorchScript value; for the link ``ahead of time`` an
            :class:`~archive.backend.lower.links.Ahead`. It raises :class:`LoweringError` for operations that
            it cannot compile.
        runtime: the class of its :class:`Runtime`.
        link: the way in which lowered modules run it.
        supports: whether a node of an exported program, a ``torch.fx.Node`` that calls an operator, may be
            part of what is lowered; the rest of the program runs in PyTorch. By default those nodes that
            ``preprocess`` does not refuse when it gets each of them alone.

    Raises:
        LoweringError: the name isn't an identifier, or the runtime isn't a class.
    """

    name: str
    preprocess: Preprocess
    runtime: type[Runtime]
    link: Link = Link.INLINE
    supports: Callable[[torch.fx.Node], bool] | None = None

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
    supports: Callable[[torch.fx.Node], bool] | None = None,
) -> Backend:
    """Register a backend for this process; see :class:`Backend`.

    Raises:
        LoweringError: the name is taken or isn't an identifier, the runtime isn't a class, or there is no
            such link.
    """
    if link not in [*map(str, Link)]:
        raise LoweringError(f"no link {link!r}; available: {', '.join(Link)}")
    made = Backend(name, preprocess, runtime, Link(link), supports)
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
    """The backend of a name: registered in this process, of this library, or of an entry point.

    Raises:
        LoweringError: there is none, or its entry point cannot be loaded or refers to something else.
    """
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        built_in: Backend = EntryPoint(name, BUILT_IN[name], ENTRY_POINT_GROUP).load()
        return built_in
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            loaded = point.load()
        except Exception as error:  # whatever a foreign module raises
            raise LoweringError(
                f"entry point {name} of {ENTRY_POINT_GROUP} ({point.value}): {error}"
            ) from error
        if not isinstance(loaded, Backend) or loaded.name != name:
            raise LoweringError(
                f"expected entry point {name} of {ENTRY_POINT_GROUP} to be a Backend {name}, found {loaded!r}"
            )
        return _registered.setdefault(name, loaded)
    raise _missing(name)


def backend_names() -> list[str]:
    """The names of all backends that can be found."""
    return sorted({*_registered, *BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def _missing(name: str) -> LoweringError:
    """The error for a name without backend: PyTorch's sentence, then the names that there are."""
    names = backend_names()
    near = get_close_matches(name, names, n=1)
    how = f"register_backend() makes one known in a process, an entry point of {ENTRY_POINT_GROUP} everywhere"
    meant = f"; did you mean {near[0]}?" if near else f"; {how}"
    return LoweringError(
        f"Preprocessing function for backend {name} is not registered.\n"
        f"no backend {name!r}; available: {', '.join(names)}{meant}"
    )
