"""Reads of tensors' metadata: sizes become numbers of the graph, everything else is guarded.

The metadata of a tensor that the graph makes follow from the inputs that it is computed from: these are
guarded. Sizes may depend on more, such as elements, so the graph itself computes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.operations import FACET_BY_NAME
from archive.effects.capture.graph.scalars import ShapeProxy, is_scalar, value_of
from archive.effects.looking import FOUND, WITHOUT_MODES
from archive.formats.effects.model import Each, Look

if TYPE_CHECKING:
    from archive.effects.capture.graph.guards import GraphInput
    from archive.effects.capture.table.call import CapturedCall


class Sizes:
    """Reads metadata of tensors."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self._known: dict[tuple[Any, ...], Any] = {}

    def read(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function or attribute that reads metadata."""
        tensor = args[0] if args and isinstance(args[0], torch.Tensor) else None
        facet = FACET_BY_NAME[name]
        if self._call.regions.checkpoints and facet == "gradient":
            self._call.refuse(f"{name} inside torch.utils.checkpoint, which disables gradients")
        if name == "is_inference" and id(tensor) in self._call.regions.inference_tensors:
            return True
        if facet == "size" and tensor is not None:
            if name in ("numel", "nelement"):
                return self._number(tensor, "numel", (), tensor.numel())
            if name == "__len__":
                self.rank(tensor)
                return self.size(tensor, 0) if tensor.dim() else tensor.__len__()
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            return self.shape(tensor) if dim is None else self.size(tensor, dim)
        if facet == "rank" and tensor is not None:
            self.rank(tensor)
        elif facet in self._call.guards.settings:
            self._call.guards.setting(facet)
        else:
            self._rely(facet, [argument for argument in args if isinstance(argument, torch.Tensor)])
        given, named = self._fixed(args), {key: self._fixed(argument) for key, argument in kwargs.items()}
        return func(*given, **named)

    def _fixed(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return tuple(map(self._fixed, value))
        return self._call.builder.fixed(value)

    def size(self, tensor: Any, dim: Any) -> Any:
        """One size of a tensor, as a number of the graph."""
        return self._number(tensor, "size", (dim,), tensor.size(value_of(dim)))

    def shape(self, tensor: Any) -> Any:
        """The shape of a tensor, its sizes as numbers of the graph."""
        self.rank(tensor)
        if self._is_fixed(tensor):
            return tensor.shape
        return ShapeProxy(self.size(tensor, dim) for dim in range(tensor.dim()))

    def _is_fixed(self, tensor: Any) -> bool:
        """Whether a tensor is computed only from parameters and buffers that the graph holds."""
        call = self._call
        return not any(
            is_scalar(given.proxy)
            or call.is_volatile(given.source)
            or not call.is_registered(given.original, given.source)
            for given in call.builder.roots(tensor)
        )

    def _number(self, tensor: Any, name: str, args: tuple[Any, ...], value: int) -> Any:
        """A number that a method of a tensor returns: the same number of the graph each time."""
        if self._is_fixed(tensor):
            self._look(self._call.builder.roots(tensor), Look.SHAPE)
            return value
        builder = self._call.builder
        key = (
            builder.node_of(tensor),
            name,
            *(id(argument) if is_scalar(argument) else argument for argument in args),
        )
        if key not in self._known:
            given = builder.input_of(tensor)
            origin = None
            if given is not None and name == "size" and not is_scalar(args[0]):
                origin = given.source, args[0]
            node = builder.emit("call_method", name, (tensor, *args), {})
            self._known[key] = builder.number(
                value,
                node,
                free=all(argument._free for argument in args if is_scalar(argument)),
                origin=origin,
            )
        return self._known[key]

    # --- guards ------------------------------------------------------------------------------------

    def _look(self, inputs: list[GraphInput], *looks: Look) -> None:
        for given in inputs:
            for look in looks:
                if not given.is_list:
                    if given.tensors:
                        self._call.guards.tensor(given, look)
                    continue
                with WITHOUT_MODES():
                    values = {FOUND[look](tensor, None) for tensor, _ in given.tensors}
                if len(values) > 1:
                    self._call.refuse(f"tensors in a list that differ in {look}")
                for value in values:
                    self._call.guards.note(look, Each(given.source), value)

    def rank(self, tensor: Any) -> None:
        """Guard the number of a tensor's dimensions."""
        builder = self._call.builder
        inputs, node = builder.roots(tensor), builder.node_of(tensor)
        if node is not None and node.meta.get("squeezed") and not self._is_fixed(tensor):
            made = self._number(tensor, "dim", (), tensor.dim())
            self._call.builder.fixed(made)
            return
        self._look(inputs, Look.DIM)

    def kind(self, tensor: Any) -> None:
        """Guard the kind of numbers that a tensor holds."""
        self._look(self._call.builder.roots(tensor), Look.KIND)

    def type(self, tensor: Any) -> None:
        """Guard the type of a tensor's elements."""
        self._type(tensor, self._call.builder.roots(tensor))

    def gradient(self, tensor: Any) -> None:
        """Guard whether a tensor requires a gradient."""
        builder = self._call.builder
        given = builder.input_of(tensor)
        if given is not None and not given.changed:
            self._look([given], Look.REQUIRES_GRAD)
            return
        self._call.guards.setting("torch.is_grad_enabled")
        self._look(builder.inputs, Look.REQUIRES_GRAD)

    def _rely(self, facet: str, tensors: list[Any]) -> None:
        """Guard the metadata that a function or attribute reads: type, device, gradient or layout."""
        builder = self._call.builder
        for tensor in tensors:
            inputs = builder.roots(tensor)
            if facet == "gradient":
                self.gradient(tensor)
            elif facet == "device":
                self._look(inputs, Look.DEVICE)
            elif facet == "layout":
                self._look(inputs, Look.SHAPE, Look.STRIDE)
            elif facet == "dtype":
                self._type(tensor, inputs)
            else:
                self._look(inputs, Look.TYPE)

    def _type(self, tensor: Any, inputs: list[GraphInput]) -> None:
        self._look(inputs, Look.DTYPE)
        if self._call.builder.input_of(tensor) is None:
            self._call.guards.setting("torch.is_autocast_enabled")
            kinds = {original.dtype for given in inputs for original, _ in given.tensors}
            if len(kinds) > 1:  # type promotion prefers tensors that have dimensions
                self._look(inputs, Look.DIM)
