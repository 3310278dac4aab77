"""Kernels of compiled models → the model source that they were made from, in PyTorch's words.

A name is a kernel's name and handle (``cpp_fused_relu_0:2``), with the model first if there are several
(``encoder:cpp_fused_relu_0:2``). A name without handle (``cpp_fused_relu_0``), and one that PyTorch's
profiler shows (``graph_0_cpp_fused_relu_0``), stand for all places that call the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import one_line, shown
from archive.base.quick_dataclass import dataclass
from archive.formats.record_kinds import KERNELS, label_in
from archive.reader.lookups.nodes import found_in, why_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.compiled.kernels import Kernel
    from archive.reader.compiled import CompiledModel


@dataclass(frozen=True)
class CalledKernel:
    """A kernel that a name stands for.

    Attributes:
        model: that it is part of.
        kernel: the kernel, as one place calls it.
    """

    model: CompiledModel
    kernel: Kernel

    @property
    def label(self) -> str:
        """Name and handle, after the model's name unless PyTorch chose that."""
        return label_in(self.model.name, self.kernel.key)

    @property
    def is_traced(self) -> bool:
        """Whether stack traces are recorded for it."""
        return bool(self.kernel.stack_traces)

    @property
    def text(self) -> str:
        """The sources of the nodes that it was made from, as PyTorch prints them; ``None`` if unrecorded.

        The traces are those of all nodes together: PyTorch does not record which one belongs to which node.
        """
        nodes = ", ".join(self.kernel.pre_grad_nodes or self.kernel.post_grad_nodes)
        traces = [f"Original traceback:\n{trace}" for trace in self.kernel.stack_traces or ("None",)]
        return "\n".join([f"Kernel {self.label}, of {nodes or 'no node'}", *traces])


def found_kernels(models: Mapping[str, CompiledModel], name: str) -> list[CalledKernel]:
    """The kernels that a name stands for.

    Returns:
        One, or several that the name doesn't distinguish; none where nothing has it.
    """
    return found_in(models, name, _in_model)


def _in_model(model: CompiledModel, name: str) -> Iterator[CalledKernel]:
    if name in model.kernels:
        yield CalledKernel(model, model.kernels[name])
        return
    names = sorted({name, *model.profiled.get(name, ())})  # a set's own order differs from run to run
    yield from (CalledKernel(model, kernel) for each in names for kernel in model.named.get(each, ()))


def why_unknown(models: Mapping[str, CompiledModel], name: str) -> str:
    """Words for a name that no kernel has: the existing kernels, similar ones first."""
    if not any(model.has_kernels for model in models.values()):
        return f"no kernel {shown(name)} is recorded: {WITHOUT_RECORD}"
    return why_none(
        "kernel", name, [label_in(model.name, key) for model in models.values() for key in model.kernels]
    )


WITHOUT_RECORD = f"there is no {KERNELS}, which trace.provenance_tracking_level of 1 makes AOTInductor write"


def why_unrecorded(model: CompiledModel, name: str) -> str:
    """Words for a kernel that is in a model's code but not in its record of kernels.

    Args:
        name: of the kernel, with its handle or without.
    """
    why = f"{KERNELS} has no {one_line(name)}" if model.has_kernels else WITHOUT_RECORD
    return f"no source is recorded: {why}"
