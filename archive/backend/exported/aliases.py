"""Other names of operators: TorchScript's compiler puts the usual one in their place.

A program has the names that the model used (``aten::clip``); TorchScript's graphs and the failures of its
interpreters have the usual ones (``aten::clamp``).

Source: the map of ``torch/csrc/jit/passes/normalize_ops.cpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from archive.backend.graph.graphs import Schema

USUAL = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "row_stack": "vstack",
    "special_digamma": "digamma",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "special_erfinv": "erfinv",
    "special_exp2": "exp2",
    "special_expit": "sigmoid",
    "special_expm1": "expm1",
    "special_gammaln": "lgamma",
    "special_i0": "i0",
    "special_log1p": "log1p",
    "special_logit": "logit",
    "special_logsumexp": "logsumexp",
    "special_round": "round",
    "special_sinc": "sinc",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "true_divide": "div",
}
"""The usual name for each other one, without ``aten::``; likewise for both with ``_`` appended."""


def usual(schema: Schema) -> Schema:
    """The same overload by the operator's usual name; the overload itself where it has that."""
    name = schema.name.removeprefix("aten::")
    base = name.removesuffix("_")
    if base not in USUAL:
        return schema
    own = [str(argument.type) for argument in schema.arguments]
    for other in torch._C._jit_get_schemas_for_operator(f"aten::{USUAL[base]}{name[len(base) :]}"):
        if [str(argument.type) for argument in other.arguments] == own:
            return other
    return schema
