"""Tables of PyTorch's functions, methods and attributes: recorded (as what), guarded, or refused."""

from __future__ import annotations

import inspect
import operator
from types import FunctionType
from typing import Any

OPERATOR_METHODS: dict[str, Any] = {
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__eq__": operator.eq,
    "__ne__": operator.ne,
    "__invert__": operator.invert,
    "__floordiv__": operator.floordiv,
    "__mod__": operator.mod,
    "__matmul__": operator.matmul,
    "__lshift__": operator.lshift,
    "__rshift__": operator.rshift,
    "__ior__": operator.ior,
    "__iand__": operator.iand,
    "__ixor__": operator.ixor,
}
"""Methods of tensors, as the operators that TorchScript knows."""

REFLECTED: dict[str, Any] = {
    "__rsub__": operator.sub,
    "__rdiv__": operator.truediv,
    "__rtruediv__": operator.truediv,
    "__rpow__": operator.pow,
    "__rfloordiv__": operator.floordiv,
    "__rmod__": operator.mod,
    "__rmatmul__": operator.matmul,
    "__rand__": operator.and_,
    "__ror__": operator.or_,
    "__rxor__": operator.xor,
}
"""Reflected operators: operands swapped."""

_FACETS = {
    "size": ("size", "shape", "numel", "nelement", "__len__"),
    "rank": ("dim", "ndim", "ndimension"),
    "dtype": (
        *("dtype", "is_floating_point", "is_complex", "is_signed", "element_size", "itemsize", "type"),
        *("result_type", "promote_types", "can_cast", "finfo", "iinfo", "is_conj", "is_neg"),
    ),
    "device": (
        *("device", "get_device", "is_cuda", "is_cpu", "is_mps", "is_xpu", "is_meta", "is_vulkan", "is_ipu"),
        *("is_xla", "is_mtia", "is_maia", "is_pinned", "is_shared"),
    ),
    "gradient": ("requires_grad", "is_leaf", "output_nr", "is_inference"),
    "layout": ("stride", "storage_offset", "is_contiguous", "is_same_size", "nbytes"),
    "torch.is_grad_enabled": ("is_grad_enabled",),
    "torch.get_default_dtype": ("get_default_dtype",),
    "type": (
        *("is_tensor", "is_nested", "is_sparse", "is_sparse_csr", "is_quantized", "is_mkldnn", "has_names"),
        *("names", "layout", "is_storage", "is_distributed"),
    ),
}
FACET_BY_NAME = {name: facet for facet, names in _FACETS.items() for name in names}
"""What functions and attributes read: metadata of tensors, or a setting. All are guarded; sizes are nodes."""

REFUSED = {
    "__bool__": "control flow that depends on a tensor",
    "__index__": "an index or size that depends on a tensor",
    "__int__": "a Python number that depends on a tensor",
    "__float__": "a Python number that depends on a tensor",
    "__complex__": "a Python number that depends on a tensor",
    "__contains__": "control flow that depends on a tensor",
    "is_nonzero": "control flow that depends on a tensor",
    "tolist": "Python numbers that depend on a tensor",
    "__repr__": "a text that depends on a tensor",
    "__format__": "a text that depends on a tensor",
    "numpy": "a tensor that leaves PyTorch",
    "__array__": "a tensor that leaves PyTorch",
    "__deepcopy__": "a deep copy of a tensor",
    "data_ptr": "the address of a tensor",
    "storage": "the storage of a tensor",
    "untyped_storage": "the storage of a tensor",
    "backward": "a backward pass inside the model",
    "grad": "a backward pass inside the model",
    "retain_grad": "a gradient that is kept",
    "set_": "a tensor with another tensor's storage",
    "resize_": "a tensor of another size",
}

GETTERS = frozenset(("T", "mT", "H", "mH", "real", "imag"))
"""Attributes of tensors that are tensors themselves."""

WRAPPED = ("pow", "pow_")
"""Methods of tensors for which operators, such as ``**``, have a separate function."""

MADE_IN_INFERENCE = "inference"
"""The mark of a node whose result is an inference tensor."""
VIEW_IN_INFERENCE = "view in inference mode"
"""The mark of a node whose result is a view, made in inference mode, of a tensor from outside."""

LISTS = frozenset(
    (
        "unbind",
        "split",
        "split_with_sizes",
        "chunk",
        "tensor_split",
        "hsplit",
        "vsplit",
        "dsplit",
        "nonzero",
        "where",
        "__iter__",
    )
)
"""Functions whose number of results depends on sizes."""

TAKING_LISTS = frozenset(
    (
        "stack",
        "cat",
        "concat",
        "concatenate",
        "hstack",
        "vstack",
        "row_stack",
        "dstack",
        "column_stack",
        "einsum",
        "pad_sequence",
        "tensor",
    )
)
"""Functions that take a list of any length, which only affects sizes of the result."""

TRAINING = {
    "batch_norm": "training",
    "native_batch_norm": "training",
    "instance_norm": "use_input_stats",
}
"""Functions that change running statistics without their version counters, if this argument is true."""

NORM_PARAMETERS = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
"""Parameters of these functions, in order, for those without a Python signature."""


def running_statistics(
    name: str,
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[Any]:
    """The running statistics that a call of a function in ``TRAINING`` changes."""
    if isinstance(function, FunctionType):
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
    else:
        given = dict(zip(NORM_PARAMETERS, args, strict=False)) | kwargs
        given[TRAINING[name]] = given.get(TRAINING[name], given.get("training"))
    if not given.get(TRAINING[name]):
        return []
    return [given[buffer] for buffer in ("running_mean", "running_var") if given.get(buffer) is not None]
