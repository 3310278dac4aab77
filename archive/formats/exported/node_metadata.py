"""The keys of a node's metadata; and ``torch_fn`` and ``source_fn_stack``, which say what made the node.

    torch_fn        = NAME ';' FUNCTION                   linear_3;builtin_function_or_method.linear
    source_fn_stack = Source (';' Source)*                outermost first
    Source          = NAME ',' FUNCTION                   relu_1,torch.nn.functional.relu

NAME is the node's at that time; only strict export writes ``source_fn_stack``. Source:
``serialize_metadata`` in ``torch/_export/serde/serialize.py`` of PyTorch 2.13.
"""

from __future__ import annotations

from typing import NamedTuple

from archive.formats.record_kinds import MetadataKind

STACK_TRACE, MODULES, FUNCTION, FUNCTIONS, ORIGINS, CUSTOM, HANDLE = (
    "stack_trace",
    "nn_module_stack",
    "torch_fn",
    "source_fn_stack",
    "from_node",
    "custom",
    "debug_handle",
)
"""The keys; ``custom`` is what users add with ``torch.fx.traceback.annotate``, and
``debug_handle`` is ExecuTorch's."""

KIND_BY_KEY = {
    STACK_TRACE: MetadataKind.TRACES,
    MODULES: MetadataKind.MODULES,
    FUNCTION: MetadataKind.FUNCTIONS,
    FUNCTIONS: MetadataKind.FUNCTIONS,
    ORIGINS: MetadataKind.ORIGINS,
    CUSTOM: MetadataKind.OTHER,
    HANDLE: MetadataKind.HANDLES,
}
"""All keys that PyTorch 2.13 and ExecuTorch 1.5 write."""


def metadata_kind(key: str) -> MetadataKind:
    """The kind of the metadata under a key."""
    return KIND_BY_KEY.get(key, MetadataKind.OTHER)


class NodeFunction(NamedTuple):
    """What made a node.

    Attributes:
        name: of the node at that time.
        function: the function or class.
    """

    name: str
    function: str


def parse_function(text: str) -> NodeFunction | None:
    """A ``torch_fn``; None where it is not laid out as described."""
    name, separator, function = text.partition(";")
    return NodeFunction(name, function) if separator else None


def build_function(function: NodeFunction) -> str:
    """The text of a ``torch_fn``."""
    return f"{function.name};{function.function}"


def parse_functions(text: str) -> tuple[NodeFunction, ...] | None:
    """A ``source_fn_stack``; None where it is not laid out as described."""
    functions = []
    for item in text.split(";"):
        name, separator, function = item.partition(",")
        if not separator:
            return None
        functions.append(NodeFunction(name, function))
    return tuple(functions)


def build_functions(functions: tuple[NodeFunction, ...]) -> str:
    """The text of a ``source_fn_stack``."""
    return ";".join(f"{source.name},{source.function}" for source in functions)
