"""The nodes of exported programs: where each is, what it calls, and what it was made from."""

from __future__ import annotations

import re
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.quick_dataclass import dataclass
from archive.formats.exported.modules import Instance, parse_modules
from archive.formats.exported.node_metadata import (
    CUSTOM,
    FUNCTION,
    FUNCTIONS,
    MODULES,
    ORIGINS,
    STACK_TRACE,
    NodeFunction,
    metadata_kind,
    parse_function,
    parse_functions,
)
from archive.formats.exported.origins import NodeOrigin, parse_origins
from archive.formats.exported.traces import Trace, parse_trace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from enum import StrEnum

LOWERED_HANDLE = re.compile(r'"debug_handle": (\d{1,18})\b')
"""Finds what :mod:`archive.backend.programs` adds to the ``custom`` metadata of lowered nodes, as JSON."""


class Scope(NamedTuple):
    """A graph inside another.

    Attributes:
        holder: name of the node that holds the graph.
        name: of the graph: ``true_graph_0``.
    """

    holder: str
    name: str

    def __str__(self) -> str:
        return f"{self.holder}.{self.name}"


@dataclass(frozen=True, eq=False)
class NodeSite:
    """A node of a program.

    Attributes:
        name: unique in its scope.
        target: what it calls: ``torch.ops.aten.linear.default``.
        scopes: the graphs that it is in, outermost first; empty in the program's own graph.
        arguments: the names of the values that it takes, in the order of the file; None if unknown.
        metadata: the texts that say where it comes from, as recorded.
        inputs: the names of the values that its graph takes, in order; empty if unknown.
        record: the node's JSON; None if unknown.
        tensors: what its graph records of each tensor, by the value's name, as the JSON has it.
    """

    name: str
    target: str
    scopes: tuple[Scope, ...]
    arguments: tuple[str, ...] | None
    metadata: Mapping[str, str] = field(repr=False)
    inputs: tuple[str, ...] = field(default=(), repr=False)
    record: Mapping[str, Any] | None = field(default=None, repr=False)
    tensors: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        """The path of scopes and the name: ``cond.true_graph_0/linear``."""
        return "/".join([*map(str, self.scopes), self.name])

    @property
    def holder(self) -> str:
        """The key of the node that holds the graph; "" in the program's own graph."""
        if not self.scopes:
            return ""
        return "/".join([*map(str, self.scopes[:-1]), self.scopes[-1].holder])

    def metadata_of(self, kinds: Collection[StrEnum]) -> dict[str, str]:
        """The metadata of some kinds."""
        return {key: text for key, text in self.metadata.items() if metadata_kind(key) in kinds}

    @property
    def trace(self) -> str | None:
        """The stack trace as PyTorch prints it; None if none is recorded."""
        return self.metadata.get(STACK_TRACE)

    @cached_property
    def frames(self) -> Trace | None:
        """The frames of the stack trace; None if none is recorded, or it isn't a stack trace."""
        return None if self.trace is None else parse_trace(self.trace)

    @cached_property
    def modules(self) -> tuple[Instance, ...]:
        """The module instances in which the node was made, outermost first; empty if none are recorded."""
        return parse_modules(self.metadata[MODULES]) or () if MODULES in self.metadata else ()

    @property
    def handle(self) -> str | None:
        """The debug handle in decimal digits; None if the node is not lowered to a backend."""
        found = LOWERED_HANDLE.search(self.metadata.get(CUSTOM, ""))
        return None if found is None else found[1]

    @cached_property
    def function(self) -> NodeFunction | None:
        """The function that made the node; None if none is recorded."""
        return parse_function(self.metadata[FUNCTION]) if FUNCTION in self.metadata else None

    @cached_property
    def functions(self) -> tuple[NodeFunction, ...]:
        """The functions and modules that made the node, outermost first; only strict export records them."""
        return parse_functions(self.metadata[FUNCTIONS]) or () if FUNCTIONS in self.metadata else ()

    @cached_property
    def origins(self) -> tuple[NodeOrigin, ...]:
        """The nodes that the node was made from; empty if none are recorded."""
        return parse_origins(self.metadata[ORIGINS]) or () if ORIGINS in self.metadata else ()


def named_values(arguments: object) -> tuple[str, ...]:
    """The names of values in arguments; without those in a graph that is an argument."""
    names: list[str] = []
    _add_named(arguments, names)
    return tuple(names)


def _add_named(arguments: object, names: list[str]) -> None:
    if isinstance(arguments, list):
        for argument in arguments:
            _add_named(argument, names)
    elif isinstance(arguments, dict):
        for key, value in arguments.items():
            if key in ("as_name", "as_graph") or (key == "name" and "arg" not in arguments):
                if isinstance(value, str):
                    names.append(value)
            elif isinstance(value, (dict, list)):
                _add_named(value, names)
