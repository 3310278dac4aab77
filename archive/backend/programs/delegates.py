"""The operator by which a program calls a backend: ``torch.ops.higher_order.debug_archive_delegate``.

    debug_archive_delegate(graph, *inputs, *state, backend=NAME) -> tuple of tensors

It takes the graph of the partition, as ``torch.cond`` takes those of its branches. So the file has all nodes
of the partition with their metadata, and PyTorch finds the sizes of results by running the graph on fake
tensors, which have sizes and types only. In place of parameters the graph has empty tensors. The backend's
state has their values: tensors, as :mod:`~archive.backend.programs.states` writes them, some of which may be
the program's parameters. Each lowered node has its debug handle in ``node.meta["custom"]``, which PyTorch
saves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch._higher_order_ops.utils import register_fake
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, track_tensor_tree
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _get_current_dispatch_mode

from archive.backend.errors import NO_HANDLE, BackendError, failed_handle
from archive.backend.exported.program import METHOD, type_name_of
from archive.backend.exported.traces import Sites
from archive.backend.graph.graphs import Operation
from archive.backend.graph.placing import Placing
from archive.backend.lower import codegen
from archive.backend.programs import states
from archive.backend.pytorch import said_by
from archive.backend.registry import find_backend
from archive.base.errors import ArchiveError
from archive.debuginfo.symbolicate import HIERARCHY_HEADING, TOP_FUNCTION, Symbolication, TracebackFrame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.backend.registry import Runtime

NAME = "debug_archive_delegate"
HANDLE = "debug_handle"
"""The key of a node's debug handle, in ``node.meta["custom"]``."""


class _Delegate(torch._ops.HigherOrderOperator):  # type: ignore[misc]  # PyTorch has no types of it
    """The operator."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def __call__(self, graph: Any, *operands: Any, backend: str) -> Any:  # noqa: ANN401
        return super().__call__(graph, *operands, backend=backend)


delegate = _Delegate()


@delegate.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)  # type: ignore[untyped-decorator]
def _executed(graph: Any, *operands: Any, backend: str) -> tuple[torch.Tensor, ...]:  # noqa: ANN401
    return part_of(graph, operands, backend).run(operands)


@delegate.py_autograd_impl  # type: ignore[untyped-decorator]
def _with_gradients(graph: Any, *operands: Any, **named: str) -> Any:  # noqa: ANN401
    """Gradients are those of the operators that the runtime runs."""
    if _get_current_dispatch_mode() is None:
        return _executed(graph, *operands, **named)
    with torch._C._AutoDispatchBelowAutograd():
        return delegate(graph, *operands, **named)


@delegate.py_functionalize_impl  # type: ignore[untyped-decorator]
def _functional(context: Any, graph: Any, *operands: Any, **named: str) -> Any:  # noqa: ANN401
    given = context.unwrap_tensors(operands)
    with context.redispatch_to_next():
        return context.wrap_tensors(delegate(graph, *given, **named))


@register_fake(delegate, skip_cache=True)  # type: ignore[untyped-decorator]
def _fake(graph: Any, *operands: Any, **_: str) -> Any:  # noqa: ANN401
    return graph(*operands[: len(_inputs(graph))])


@delegate.py_impl(ProxyTorchDispatchMode)  # type: ignore[untyped-decorator]
def _traced(mode: Any, graph: Any, *operands: Any, **named: str) -> Any:  # noqa: ANN401
    tracer = mode.tracer
    tracer.root.register_module(tracer.get_fresh_qualname("lowered_"), graph)
    given = pytree.tree_map(tracer.unwrap_proxy, (graph, *operands))
    proxy = tracer.create_proxy("call_function", delegate, given, named)
    return track_tensor_tree(delegate(graph, *operands, **named), proxy, constant=None, tracer=tracer)


# --- running


@dataclass(slots=True)
class Part:
    """A partition, compiled.

    Attributes:
        graph: its nodes.
        tensors: those of its state, each with the number of changes in place that PyTorch has counted.
    """

    graph: torch.fx.GraphModule
    backend: str
    runtime: Runtime
    tensors: list[tuple[torch.Tensor, int]]
    compiled: Any
    results: int

    @classmethod
    def of(cls, graph: torch.fx.GraphModule, operands: Sequence[Any], backend: str) -> Part:
        """Compile a state.

        Raises:
            BackendError: the backend is not available.
            ArchiveError: it is not a state of this backend.
        """
        runtime = find_backend(backend).runtime()
        if not runtime.is_available():
            raise BackendError(codegen.UNAVAILABLE, backend)
        state = operands[len(_inputs(graph)) :]
        try:
            spec, processed = _pair(states.read(state))
            compiled = runtime.compile(processed, spec)[METHOD]
        except Exception as error:
            said = BackendError(said_by(error), backend, _place_of_failure(graph, error, runtime))
            raise ArchiveError(f"backend {backend} does not compile the state: {said}") from error
        results = len(graph.graph.output_node().args[0])
        return cls(graph, backend, runtime, [*map(_versioned, state)], compiled, results)

    def is_of(self, operands: Sequence[Any]) -> bool:
        """Whether the tensors of the state are those that were compiled, and unchanged."""
        tensors = operands[len(operands) - len(self.tensors) :]
        return all(
            own is tensor and version == _versioned(tensor)[1]
            for (own, version), tensor in zip(self.tensors, tensors, strict=True)
        )

    def run(self, operands: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Run it.

        Raises:
            BackendError: an operation failed, or the backend has become unavailable.
        """
        if not self.runtime.is_available():
            raise BackendError(codegen.UNAVAILABLE, self.backend)
        self.runtime.last_handle = NO_HANDLE
        try:
            inputs = list(operands[: len(operands) - len(self.tensors)])
            found = self.runtime.execute(self.compiled, inputs)
        except Exception as error:
            place = _place_of_failure(self.graph, error, self.runtime)
            raise BackendError(said_by(error), self.backend, place) from error
        if len(found) != self.results or not all(isinstance(each, torch.Tensor) for each in found):
            kinds = ", ".join(type(each).__name__ for each in found) or "nothing"
            said = f"expected {self.results} tensors of the backend, found {kinds}"
            raise BackendError(said, self.backend)
        return tuple(found)


_parts: WeakKeyDictionary[torch.fx.GraphModule, Part] = WeakKeyDictionary()
"""Compiled partitions, by their graphs."""


def part_of(graph: torch.fx.GraphModule, operands: Sequence[Any], backend: str) -> Part:
    """The partition of a call, compiled again if tensors of its state have changed; see :meth:`Part.of`."""
    part = _parts.get(graph)
    if part is None or not part.is_of(operands):
        part = _parts[graph] = Part.of(graph, operands, backend)
    return part


def _inputs(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The inputs of a partition, without the tensors of its state."""
    return [*graph.graph.find_nodes(op="placeholder")]


def _pair(value: Any) -> Any:  # noqa: ANN401
    """A value, if it is options of methods and a state."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], dict):  # noqa: PLR2004
        return value
    raise ArchiveError(expected="options of methods and a state", found=type(value).__name__)


def _versioned(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """A tensor, and how often it was changed in place; PyTorch does not count this in inference mode."""
    return tensor, 0 if tensor.is_inference() else tensor._version


# --- failures


def handle_of(node: torch.fx.Node) -> int:
    """The debug handle of a lowered node; -1 if it has none."""
    handle = (node.meta.get("custom") or {}).get(HANDLE, NO_HANDLE)
    return handle if isinstance(handle, int) else NO_HANDLE


@dataclass(frozen=True, slots=True)
class NodePlace(Symbolication):
    """The place of a node; ``str()`` has its traceback as PyTorch keeps it.

    Attributes:
        trace: of the node; None if none was recorded.
    """

    trace: str | None = None

    def __bytes__(self) -> bytes:
        text = f"{HIERARCHY_HEADING.decode()}{self.module_hierarchy}\nOriginal traceback:\n{self.trace}"
        return text.rstrip("\n").encode("utf-8", "surrogateescape")


def _place_of_failure(
    graph: torch.fx.GraphModule, error: Exception, runtime: Runtime
) -> Symbolication | None:
    """The place of the node that failed in a runtime; None if none did."""
    handle = failed_handle(error, runtime)
    return None if handle == NO_HANDLE else symbolicated(graph, handle)


def symbolicated(graph: torch.fx.GraphModule, handle: int) -> Symbolication:
    """The place in the model of a debug handle, its hierarchy and frames as for modules."""
    node = next((node for node in graph.graph.nodes if handle_of(node) == handle), None)
    if node is None:
        return Symbolication((handle,), (handle,), "", (), ())
    schema = getattr(node.target, "_schema", None)
    operation = Operation("" if schema is None else schema.name, [], [])
    Placing().put(operation, Sites().of(node, operation.kind))
    functions = [TOP_FUNCTION, *(call.function.encode() for call in operation.stack)]
    ranges = [*(call.range for call in operation.stack), operation.range]
    top = type_name_of(graph.graph.nodes).rpartition(".")[2]
    calls = [
        f"{call.instance}({call.type_name.rpartition('.')[2]})::{call.function}"
        if call.type_name
        else f"UNKNOWN_INSTANCE(UNKNOWN_TYPE)::{call.function}"
        for call in operation.stack
    ]
    hierarchy = ".".join([f"top({top})::{TOP_FUNCTION.decode()}", *calls, operation.kind])
    frames = tuple(map(TracebackFrame, functions, ranges))
    return NodePlace((handle,), (), hierarchy, (), frames, trace=node.meta.get("stack_trace"))
