"""The kinds of metadata that nodes have, and the keys of JSON that each is written under."""

from __future__ import annotations

from enum import StrEnum


class MetadataKind(StrEnum):
    """The kinds of metadata of nodes. All are debug information."""

    TRACES = "traces"
    MODULES = "modules"
    FUNCTIONS = "functions"
    ORIGINS = "origins"
    HANDLES = "debug handles"
    OTHER = "other metadata"


STACK_TRACE, MODULES, FUNCTION, FUNCTIONS, ORIGINS, CUSTOM, HANDLE = (
    "stack_trace",
    "nn_module_stack",
    "torch_fn",
    "source_fn_stack",
    "from_node",
    "custom",
    "debug_handle",
)
"""The keys; ``custom`` is what a user notes about nodes, by ``torch.fx.traceback.annotate``, and
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
