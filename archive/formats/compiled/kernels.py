"""``kernel_information.json``: the kernels of a compiled model, and the source that each one comes from.

An object of kernels, each under its name and handle. A kernel is a compiled function, or an operator of
PyTorch that compiled code calls. It has a handle for each place that calls it: ``cpp_fused_add_relu_1:3`` and
``:5`` are one kernel, called for different nodes.

The record is there if the model was compiled with ``trace.provenance_tracking_level`` of 1 or more. Source:
``create_kernel_information_json`` in ``torch/_inductor/debug.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from functools import cached_property

from archive.base.quick_dataclass import dataclass
from archive.formats.exported.traces import Trace, parse_trace
from archive.formats.schema.json import DictOf, JsonClass, ListOf, Matching, checked

KEY = re.compile(r".+:(?:0|[1-9][0-9]{0,8})", re.DOTALL)
LISTS = {
    "stack_traces": "as PyTorch prints them, each once; those of all nodes that the kernel was made from",
    "pre_grad_nodes": "the nodes of the exported program that the kernel was made from",
    "post_grad_nodes": "the same after PyTorch decomposed them",
}
KERNEL = JsonClass({name: ListOf("str") for name in LISTS}, docs=LISTS)
KERNEL_MAP = DictOf(KERNEL, Matching(KEY, "a kernel's name and its handle"))


@dataclass(frozen=True)
class Kernel:
    """A kernel as one place calls it.

    Attributes:
        name: of the kernel: ``cpp_fused_add_relu_1``.
        handle: of the place, unique in its model.
        stack_traces: as PyTorch prints them, without duplicates; those of all nodes that the kernel was made
            from.
        pre_grad_nodes: the nodes of the exported program that the kernel was made from.
        post_grad_nodes: the same after PyTorch decomposed them.
    """

    name: str
    handle: int
    stack_traces: tuple[str, ...]
    pre_grad_nodes: tuple[str, ...]
    post_grad_nodes: tuple[str, ...]

    @property
    def key(self) -> str:
        """Name and handle: ``cpp_fused_add_relu_1:3``."""
        return f"{self.name}:{self.handle}"

    @cached_property
    def traces(self) -> tuple[Trace | None, ...]:
        """The frames of each stack trace; None for one that isn't a stack trace."""
        return tuple(map(parse_trace, self.stack_traces))


def parse_kernels(tree: object) -> dict[str, Kernel]:
    """The kernels of a model by key, in the order of the record."""
    kernels = {}
    for key, lists in checked(tree, KERNEL_MAP).items():
        name, _, handle = key.rpartition(":")
        kernels[key] = Kernel(name, int(handle), *(tuple(lists[kind]) for kind in LISTS))
    return kernels
