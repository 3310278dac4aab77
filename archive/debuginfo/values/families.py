"""Which operators of different forms compute the same, and which compute nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.debuginfo.values.observed import SILENT

if TYPE_CHECKING:
    from archive.debuginfo.values.observed import ObservedOperation

LAYOUT = frozenset(
    [
        "_to_copy",
        "_unsafe_view",
        "alias",
        "as_strided",
        "chunk",
        "clone",
        "contiguous",
        "copy",
        "detach",
        "dropout",
        "expand",
        "expand_as",
        "feature_dropout",
        "flatten",
        "lift_fresh",
        "lift_fresh_copy",
        "mT",
        "matrix_H",
        "narrow",
        "numpy_T",
        "permute",
        "positive",
        "reshape",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "tensor_split",
        "to",
        "transpose",
        "type_as",
        "unbind",
        "unflatten",
        "unsafe_chunk",
        "unsafe_split",
        "unsafe_split_with_sizes",
        "unsqueeze",
        "view",
        "view_as",
    ]
)
"""Operators that compute nothing: they show elements otherwise, or copy them."""
COPY = "_copy"
"""Ends the name of a layout operator whose result is no view."""
FAMILIES = {
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_clone_dim_order": "clone",
    "_convolution": "conv",
    "_log_softmax": "log_softmax",
    "_native_batch_norm_legit": "batch_norm",
    "_native_batch_norm_legit_no_training": "batch_norm",
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "_softmax": "softmax",
    "_to_dim_order_copy": "_to_copy",
    "add_relu": "add",
    "addmm": "linear",
    "bmm": "matmul",
    "conv1d": "conv",
    "conv2d": "conv",
    "conv2d_relu": "conv",
    "conv3d": "conv",
    "convolution": "conv",
    "cudnn_batch_norm": "batch_norm",
    "dequantize_affine": "dequantize",
    "dequantize_per_channel": "dequantize",
    "dequantize_per_tensor": "dequantize",
    "hardtanh": "clamp",
    "linear_dynamic": "linear",
    "linear_relu": "linear",
    "max_pool2d_with_indices": "max_pool2d",
    "mm": "linear",
    "native_batch_norm": "batch_norm",
    "native_group_norm": "group_norm",
    "native_layer_norm": "layer_norm",
    "quantize_affine": "quantize",
    "quantize_per_channel": "quantize",
    "quantize_per_tensor": "quantize",
    "relu6": "clamp",
    "rsub": "sub",
    "scalar_tensor": "full",
}
"""Operators that compute the same as another one, which gives the family its name."""
NORM = "batch_norm"
LAYERS = frozenset({"conv", "linear"})
"""What batch normalisations are folded into."""
WITH_RELU = "_relu"
"""Ends the name of an operator that computes ``relu`` of what it would return otherwise."""
ROUNDING = frozenset({"dequantize", "quantize"})


def family(op: str) -> str:
    """What an operator computes, by its name without namespace, overload and the mark of in-place ones.

    >>> family("aten::addmm"), family("aten::relu_"), family("aten.native_layer_norm.default")
    ('linear', 'relu', 'layer_norm')
    """
    name = op.rpartition("::")[2] if "::" in op else op.split(".")[1] if "." in op else op
    name = name.partition(".")[0]
    if name.endswith("_") and not name.startswith("__"):
        name = name[:-1]
    if name.removesuffix(COPY) in LAYOUT:
        return name.removesuffix(COPY)
    return FAMILIES.get(name, name)


def computes(operation: ObservedOperation) -> bool:
    """Whether an operation makes a tensor that none of its arguments has."""
    return bool(operation.results) and is_computing(operation.op)


def is_computing(op: str) -> bool:
    """Whether an operator makes a tensor that none of its arguments has."""
    return family(op) not in LAYOUT and op not in SILENT


def rounds(operation: ObservedOperation) -> bool:
    """Whether an operation returns what it is given, in steps."""
    return family(operation.op) in ROUNDING
