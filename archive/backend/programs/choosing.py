"""Chooses the nodes of a program that are lowered together."""

from __future__ import annotations

from operator import getitem
from typing import TYPE_CHECKING

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils import _pytree as pytree

from archive.backend.exported.graphs import overload_of
from archive.backend.exported.traces import module_stack
from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive.backend.programs.cutting import Cutting, Partition

    Supports = Callable[[torch.fx.Node], bool]

CHANCES = ("train", "training", "dropout_p")
"""Arguments of operators that take no random numbers where these are False or 0."""


def partitions_of(
    graph_module: torch.fx.GraphModule, supports: Supports, paths: Sequence[str] | None = None
) -> list[list[torch.fx.Node]]:
    """The nodes of each partition in their order; the partitions in the order of their first nodes.

    Args:
        supports: whether the backend supports a node.
        paths: modules in which nodes are lowered; None for all.
    """
    nodes = list(graph_module.graph.nodes)
    if paths is not None:
        check_paths(paths, nodes)
    fitting = _Fitting(lambda node: is_pure(node) and is_within(node, paths) and supports(node))
    partitioner = CapabilityBasedPartitioner(graph_module, fitting, allows_single_node_partition=True)
    place = {node: number for number, node in enumerate(nodes)}
    found = [sorted(each.nodes, key=place.__getitem__) for each in partitioner.propose_partitions()]
    used = [each for each in found if any(user not in each for node in each for user in node.users)]
    return sorted(used, key=lambda each: place[each[0]])


class _Fitting(OperatorSupportBase):  # type: ignore[misc]  # PyTorch has no types of it
    """What PyTorch's partitioner asks of nodes, once for each."""

    def __init__(self, fits: Supports) -> None:
        self._fits = fits
        self._known: dict[torch.fx.Node, bool] = {}

    def is_node_supported(self, _: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> bool:
        """Whether a node may be lowered; an item of results goes with the node that makes them."""
        while node.target is getitem:
            (node, _) = node.args
        if node not in self._known:
            self._known[node] = self._fits(node)
        return self._known[node]


def preprocessed_alone(
    cutting: Cutting,
    preprocess: Callable[[Partition], object],
    refusals: dict[torch.fx.Node, LoweringError],
) -> Supports:
    """Whether a backend does not refuse a node that it gets by itself.

    Args:
        preprocess: raises a :class:`LoweringError` for a partition that the backend refuses.
        refusals: gets these errors by their nodes.
    """

    def supports(node: torch.fx.Node) -> bool:
        items = [user for user in node.users if user.target is getitem]
        try:
            preprocess(cutting.partition([node, *items]))
        except LoweringError as error:
            refusals[node] = error
            return False
        return True

    return supports


def is_pure(node: torch.fx.Node) -> bool:
    """Whether a node makes tensors alone, always the same ones: it may run earlier or later than before."""
    target = overload_of(node.target)
    if node.op != "call_function" or target is None:
        return False
    made = pytree.tree_leaves(node.meta.get("val"))
    is_one = isinstance(node.meta.get("val"), torch.Tensor)
    return (
        bool(made)
        and (is_one or all(user.target is getitem for user in node.users))
        and all(isinstance(each, torch.Tensor) for each in made)
        and all(each.op != "get_attr" for each in node.all_input_nodes)
        and not target._schema.is_mutable
        and not _is_random(node, target)
    )


def _is_random(node: torch.fx.Node, target: torch._ops.OpOverload) -> bool:
    """Whether an operator takes random numbers; dropout takes none outside of training."""
    names = [argument.name for argument in target._schema.arguments]
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    defaults = {argument.name: argument.default_value for argument in target._schema.arguments}
    chances = [given.get(name, defaults[name]) for name in CHANCES if name in defaults]
    return torch.Tag.nondeterministic_seeded in target.tags and not (chances and not any(chances))


def is_within(node: torch.fx.Node, paths: Sequence[str] | None) -> bool:
    """Whether a node was made in one of some modules, or in a module of these."""
    if paths is None:
        return True
    within = [f"{module.path}." for module in module_stack(node)]
    return any(module.startswith(f"{path}.") for path in paths for module in within)


def check_paths(paths: Sequence[str], nodes: Sequence[torch.fx.Node]) -> None:
    """Make sure that each path is of a module that made some of the nodes."""
    if isinstance(paths, str) or not all(isinstance(path, str) for path in paths):
        raise LoweringError(f"expected a list of paths, found {paths!r}")
    if not paths:
        raise LoweringError("expected the path of a part to lower, found none")
    known = dict.fromkeys(module.path for node in nodes for module in module_stack(node) if module.path)
    for path in paths:
        if path not in known:
            raise LoweringError(f"part {path!r} has no operations; modules: {', '.join(known) or 'none'}")
