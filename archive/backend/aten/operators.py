"""Decides which operations can be run from Python, and finds the function that runs each.

An operation's name is its kind and, behind a point, the overload of its schema: ``aten::add.Tensor``,
``aten::relu``, ``prim::ListConstruct``. The name alone decides whether it can be run. The rules are the same
for graphs and for programs read from archives, which anybody may have written:

1. Python runs the operations in ``PYTHON_CALLS``:

   - those on lists and dicts, because PyTorch copies these when it calls an operator from Python, and changes
     to the copy are lost;
   - those on values of any type, because PyTorch cannot call such operators from Python;
   - those that are no operators: ``prim::Print``, ``prim::RaiseException``, ``aten::warn``.
2. For any other name, the operator that PyTorch has registered under it is called, if the operator

   - is in the namespace ``aten``, ``prim`` or ``quantized``, or one of ``TORCHVISION_OPERATORS``,
   - takes and makes nothing but tensors, numbers, texts, devices, packed weights of quantised layers, and
     lists, dicts and tuples of these,
   - mutates no list or dict,
   - and is not in ``EXCLUDED_KINDS``: these reach files, random seeds and generators, settings of the
     process, gradients of other tensors, or storages under another tensor's name, or do not check indices.

These rules make no sandbox. As in TorchScript, operators may print, take any time and memory, and change
parameters in place; a fault in one of PyTorch's operators is a fault here too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.aten.calls import PYTHON_CALLS, SCALAR_CALLS
from archive.backend.graph.attributes import OBJECT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Call = Callable[..., Any]

TORCHVISION_OPERATORS = "nms|roi_align|roi_pool|ps_roi_align|ps_roi_pool|deform_conv2d"
"""Operators of torchvision's detection models. They compute; its other operators read and write files."""
OPERATOR_NAME = re.compile(
    rf"((?:aten|prim|quantized)::[A-Za-z_]\w*|torchvision::(?:{TORCHVISION_OPERATORS}))(?:\.(\w+))?", re.ASCII
)
EXCLUDED_KINDS = re.compile(
    r"aten::(save|from_file|_print|manual_seed|seed|initial_seed|Generator|set_grad_enabled|_cufft_\w+|_test_\w+"
    r"|backward|_backward|retain_grad|get_gradients|set_|set_data|_index_put_impl_?|_unsafe_(index|masked)\w*"
    r"|_sparse_\w+_unsafe)"
    r"|prim::(TimePoint|AddStatValue|BailoutTemplate|Guard|\w*MKLDNN\w*|mkldnn_\w+)"
)
"""Kinds of operators that reach out of the computation, or that only PyTorch's optimizers write."""

SCALAR_TYPES = frozenset({"IntType", "FloatType", "BoolType", "StringType"})
CALLABLE_TYPES = SCALAR_TYPES | {
    "TensorType",
    "NumberType",
    "ComplexType",
    "DeviceObjType",
    "NoneType",
    "OptionalType",
    "ListType",
    "DictType",
    "TupleType",
    "GeneratorType",
    f"{OBJECT_TYPE}quantized",
    f"{OBJECT_TYPE}rnn",
}
"""Types of the inputs and outputs of operators that are called. (A generator can only be None.)"""

ARITY_WITHOUT_SCHEMA: dict[str, tuple[int, int | None, int | None]] = {
    "prim::ListConstruct": (0, None, 1),
    "prim::TupleConstruct": (0, None, 1),
    "prim::DictConstruct": (0, None, 1),
    "prim::ListUnpack": (1, 1, None),
    "prim::TupleUnpack": (1, 1, None),
    "prim::shape": (1, 1, 1),
    "prim::tolist": (3, 3, 1),
    "prim::Print": (0, None, 0),
    "prim::Enter": (0, 0, 1),
    "prim::Exit": (1, 1, 0),
    "aten::format": (1, None, 1),
    "aten::percentFormat": (1, None, 1),
}
"""Fewest inputs, most inputs, and outputs of operations without a fixed schema; None: any number."""


@dataclass(frozen=True, slots=True)
class Arity:
    """How many inputs and outputs an operation has.

    Attributes:
        least: fewest inputs.
        most: most inputs; None: any number.
        outs: outputs; None: any number.
    """

    least: int
    most: int | None
    outs: int | None

    def fits(self, outs: int, ins: int) -> bool:
        """Whether an operation can have so many outputs and inputs."""
        if self.outs is not None and outs != self.outs:
            return False
        return ins >= self.least and (self.most is None or ins <= self.most)


def operator_name(kind: str, schema: str) -> str:
    """The name of an operation, from its kind and its schema as text ("" if it has none)."""
    overload = torch._C.parse_schema(schema).overload_name if schema else ""
    return f"{kind}.{overload}" if overload else kind


def kind_of(name: str) -> str:
    """The kind of an operation: its name without the overload."""
    return name.partition(".")[0]


OF_BYTES = ("aten::len.str", "aten::__getitem__.str", "aten::list")
"""Operations on texts, which TorchScript counts in bytes; those on lists are Python's own."""


def supported(name: str) -> bool:
    """Whether an operation can be run, by the rules of this module."""
    return arity(name) is not None


@lru_cache(maxsize=4096)
def arity(name: str) -> Arity | None:
    """How many inputs and outputs an operation has; None if it cannot be run."""
    if name in ARITY_WITHOUT_SCHEMA:
        return Arity(*ARITY_WITHOUT_SCHEMA[name])
    schema = _schema(name)
    if schema is None or not (_own(name) or _callable(name, schema)):
        return None
    count = len(schema.arguments)
    return Arity(count, count, len(schema.returns))


def prepared(name: str, ins: tuple[int, ...], known: Mapping[int, Any]) -> tuple[Call, tuple[int, ...]]:
    """The function that runs an operation, and the registers whose values it takes, by position.

    Args:
        name: the name of a supported operation.
        ins: the registers of all its inputs.
        known: the values of registers that never change. Keyword-only arguments that are all among these are
            bound to the function now.
    """
    own = _own(name)
    if own is not None:
        return own, ins
    schema = _schema(name)
    if kind_of(name) in SCALAR_CALLS and all(one.type.kind() in SCALAR_TYPES for one in schema.arguments):
        return SCALAR_CALLS[kind_of(name)], ins
    call = torch._C._get_operation_overload(*_parts(name))[0]
    positional = sum(not one.kwarg_only for one in schema.arguments)
    keywords = schema.arguments[positional:]
    if not all(register in known for register in ins[positional:]):
        return partial(_with_keywords, call, [one.name for one in keywords]), ins
    given = {
        one.name: known[register]
        for one, register in zip(keywords, ins[positional:], strict=True)
        if not _is_default(one, known[register])
    }
    return (partial(call, **given) if given else call), ins[:positional]


def _with_keywords(call: Call, names: list[str], *values: object) -> Any:  # noqa: ANN401
    positional = len(values) - len(names)
    return call(*values[:positional], **dict(zip(names, values[positional:], strict=True)))


def _is_default(argument: Any, value: object) -> bool:  # noqa: ANN401 (a torch.Argument)
    """Whether an argument's value is its default, which need not be given."""
    if not argument.has_default_value() or type(value) not in (bool, int, float, str, type(None)):
        return False
    default = argument.default_value
    return type(default) is type(value) and bool(default == value)


def _own(name: str) -> Call | None:
    """The Python function that runs an operation, if there is one."""
    if name in OF_BYTES:
        return None
    return PYTHON_CALLS.get(name) or PYTHON_CALLS.get(kind_of(name))


def _parts(name: str) -> tuple[str, str]:
    """The kind and the overload of a name."""
    kind, _, overload = name.partition(".")
    return kind, overload


def _schema(name: str) -> Any:  # noqa: ANN401 (a torch._C.FunctionSchema)
    """The schema of a registered operator; None if there is none."""
    if not OPERATOR_NAME.fullmatch(name):
        return None
    try:
        return torch._C._get_schema(*_parts(name))
    except RuntimeError:
        return None


def _callable(name: str, schema: Any) -> bool:  # noqa: ANN401
    """Whether PyTorch's operator may be called, by rule 2."""
    if EXCLUDED_KINDS.fullmatch(kind_of(name)) or "..." in str(schema):
        return False
    kinds = {kind for one in (*schema.arguments, *schema.returns) for kind in _kinds(one.type)}
    written = [one for one in schema.arguments if one.alias_info is not None and one.alias_info.is_write]
    return kinds <= CALLABLE_TYPES and all(
        one.type.kind() in ("TensorType", "OptionalType") for one in written
    )


def _kinds(kind: Any) -> Iterator[str]:  # noqa: ANN401 (a torch._C.Type)
    """The kinds of a type and of all types in it; of a C++ class its name without the last part."""
    if kind.kind() == "ClassType":
        yield kind.annotation_str.rpartition(".")[0]
        return
    yield kind.kind()
    for inner in kind.containedTypes():
        yield from _kinds(inner)
