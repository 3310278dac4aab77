"""What a model reads of tensors besides elements: sizes are numbers of the graph, all else is relied on.

What is told of a tensor that the graph makes follows from the tensors that it is made of: these are looked
at. Sizes may depend on more, as on elements: the graph itself gives them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.scalars import is_scalar, value_of
from archive.effects.capture.shape import Shape
from archive.effects.capture.tape import concrete
from archive.formats.effects.model import Look

if TYPE_CHECKING:
    from archive.effects.capture.recorder import Recorder
    from archive.effects.capture.tape import Input

SIZES = frozenset(("size", "shape", "numel", "nelement", "__len__"))
RANKS = frozenset(("dim", "ndim", "ndimension"))
TYPES = frozenset(
    (
        "dtype",
        "is_floating_point",
        "is_complex",
        "is_signed",
        "element_size",
        "itemsize",
        "result_type",
        "promote_types",
        "can_cast",
        "type",
        "finfo",
        "iinfo",
        "is_conj",
        "is_neg",
    )
)
DEVICES = frozenset(
    (
        "device",
        "get_device",
        "is_cuda",
        "is_cpu",
        "is_mps",
        "is_xpu",
        "is_meta",
        "is_vulkan",
        "is_ipu",
        "is_xla",
        "is_mtia",
        "is_maia",
        "is_pinned",
        "is_shared",
    )
)
GRADIENTS = frozenset(("requires_grad", "is_leaf", "output_nr", "is_inference"))
LAYOUTS = frozenset(("stride", "storage_offset", "is_contiguous", "is_same_size", "nbytes"))
GLOBAL = {"is_grad_enabled": "torch.is_grad_enabled", "get_default_dtype": "torch.get_default_dtype"}


class Sizes:
    """Reads tensors.

    Args:
        recorder: of the call.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[tuple[Any, ...], Any] = {}

    def read(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """What a function or attribute tells of tensors."""
        tensor = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if name in SIZES and tensor is not None:
            return self._size_of(name, tensor, *args[1:], **kwargs)
        if name in RANKS and tensor is not None:
            self.rank(tensor)
        elif name in GLOBAL:
            self._recorder.guards.setting(GLOBAL[name])
        else:
            self._rely(name, [one for one in args if isinstance(one, torch.Tensor)])
        given, named = self._fixed(args), {key: self._fixed(one) for key, one in kwargs.items()}
        return func(*given, **named)

    def _fixed(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, tuple | list):
            return tuple(map(self._fixed, value))
        return self._recorder.fixed(value)

    def _size_of(self, name: str, tensor: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        dim = kwargs.get("dim", args[0] if args else None)
        if name in ("numel", "nelement"):
            return self._number(tensor, "numel", (), tensor.numel())
        if name == "__len__":
            self.rank(tensor)
            return self.size(tensor, 0) if tensor.dim() else tensor.__len__()
        return self.shape(tensor) if dim is None else self.size(tensor, dim)

    def size(self, tensor: Any, dim: Any) -> Any:  # noqa: ANN401
        """A size, as a number of the graph."""
        return self._number(tensor, "size", (dim,), tensor.size(value_of(dim)))

    def shape(self, tensor: Any) -> Any:  # noqa: ANN401
        """All sizes."""
        self.rank(tensor)
        if self._is_fixed(tensor):
            return tensor.shape
        return Shape(self.size(tensor, dim) for dim in range(tensor.dim()))

    def _is_fixed(self, tensor: Any) -> bool:  # noqa: ANN401
        """Whether a tensor is made of nothing but what the graph keeps itself."""
        return not any(self._differs(one) for one in self._recorder.tape.roots(tensor))

    def _differs(self, one: Input) -> bool:
        if is_scalar(one.stand_in):
            return True
        recorder = self._recorder
        return recorder.wrapping.volatile(one.source) or not recorder.is_registered(one.original, one.source)

    def _number(self, tensor: Any, name: str, args: tuple[Any, ...], value: int) -> Any:  # noqa: ANN401
        """A number that tells of a tensor."""
        if self._is_fixed(tensor):
            self._look(self._recorder.tape.roots(tensor), Look.SHAPE)
            return value
        tape = self._recorder.tape
        key = (tape.node_of(tensor), name, *(id(one) if is_scalar(one) else one for one in args))
        if key not in self._known:
            given = tape.input_of(tensor)
            origin = None
            if given is not None and name == "size" and not is_scalar(args[0]):
                origin = given.source, args[0]
            node = tape.emit("call_method", name, (tensor, *args), {})
            self._known[key] = tape.number(value, node, free=self._is_free(args), origin=origin)
        return self._known[key]

    @staticmethod
    def _is_free(args: tuple[Any, ...]) -> bool:
        return all(one._free for one in args if is_scalar(one))

    # --- what is relied on -------------------------------------------------------------------------

    def _look(self, inputs: list[Input], *looks: Look) -> None:
        for one in inputs:
            if not is_scalar(one.stand_in):
                for look in looks:
                    self._recorder.guards.tensor(one, look)

    def rank(self, tensor: Any) -> None:  # noqa: ANN401
        """Rely on how many dimensions a tensor has."""
        tape = self._recorder.tape
        inputs, node = tape.roots(tensor), tape.node_of(tensor)
        if node is not None and node.meta.get("squeezed") and not self._is_fixed(tensor):
            made = self._number(tensor, "dim", (), tensor.dim())
            self._recorder.fixed(made)
            return
        self._look(inputs, Look.DIM)

    def kind(self, tensor: Any) -> None:  # noqa: ANN401
        """Rely on what numbers a tensor holds."""
        self._look(self._recorder.tape.roots(tensor), Look.KIND)

    def gradient(self, tensor: Any) -> None:  # noqa: ANN401
        """Rely on whether a tensor requires a gradient."""
        tape = self._recorder.tape
        given = tape.input_of(tensor)
        if given is not None and not given.changed:
            self._look([given], Look.REQUIRES_GRAD)
            return
        self._recorder.guards.setting("torch.is_grad_enabled")
        self._look(tape.inputs, Look.REQUIRES_GRAD)

    def _rely(self, name: str, tensors: list[Any]) -> None:
        """Rely on what tells a type, a device, a gradient or how elements lie."""
        tape = self._recorder.tape
        for tensor in tensors:
            inputs = tape.roots(tensor)
            if name in GRADIENTS:
                self.gradient(tensor)
            elif name in DEVICES:
                self._look(inputs, Look.DEVICE)
            elif name in LAYOUTS:
                self._look(inputs, Look.SHAPE, Look.STRIDE)
            elif name in TYPES:
                self._type(tensor, inputs)
            else:
                self._look(inputs, Look.TYPE)

    def _type(self, tensor: Any, inputs: list[Input]) -> None:  # noqa: ANN401
        self._look(inputs, Look.DTYPE)
        if self._recorder.tape.input_of(tensor) is None:
            self._recorder.guards.setting("torch.is_autocast_enabled")
            kinds = {one.original.dtype for one in inputs if not is_scalar(one.stand_in)}
            if len(kinds) > 1:  # a tensor without dimensions gives way to others
                self._look(inputs, Look.DIM)


def sized(value: Any) -> Any:  # noqa: ANN401
    """Sizes as PyTorch has them."""
    return torch.Size(concrete(value)) if type(value) is Shape else value
