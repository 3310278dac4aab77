"""Decides which operations can be run from Python, and finds the function that runs each.

An operation's name is its kind and, after a point, the overload of its schema: ``aten::add.Tensor``,
``aten::relu``, ``prim::ListConstruct``. Only the name decides whether it can be run. The rules are the same
for graphs and for programs read from archives, which anybody may have written:

1. Python runs the operations in ``PYTHON_CALLS``:

   - those on lists and dicts, because PyTorch copies these when it calls an operator from Python, and changes
     to the copy are lost;
   - those on values of any type, because PyTorch cannot call such operators from Python;
   - those that aren't operators: ``prim::Print``, ``prim::RaiseException``, ``aten::warn``.
2. For any other name, the operator that PyTorch has registered under it is called, if the operator

   - is in the namespace ``aten``, ``prim`` or ``quantized``, or one of ``TORCHVISION_OPERATORS``,
   - takes and makes nothing but tensors, numbers, texts, devices, packed weights of quantised layers, and
     lists, dicts and tuples of these,
   - mutates no list or dict,
   - and is not in ``EXCLUDED_KINDS``: these reach files, random seeds and generators, settings of the
     process, gradients of other tensors, or storages under another tensor's name, or do not check indices.

These rules aren't a sandbox. As in TorchScript, operators may print, take any time and memory, and change
parameters in place; a fault in one of PyTorch's operators is a fault here too.
"""

from __future__ import annotations

import operator
import re
import sys
import warnings
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.backend.graph.attributes import OBJECT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Call = Callable[..., Any]

# --- texts of values, as ``operator<<`` of ``aten/src/ATen/core/ivalue.cpp`` makes them

PERCENT_FORMAT = re.compile(r"(?:[^%]|%[sdifeEgGc%])*", re.DOTALL)
INT64_END = 1 << 63


def shown(value: object) -> str:
    """The text of a value. Whole floats end in a point, others have 17 digits; texts have no quotes."""
    if isinstance(value, float):
        is_whole = abs(value) < INT64_END and value == int(value)
        return f"{int(value)}." if is_whole else f"{value:.17g}"
    if type(value) is list:
        return f"[{', '.join(map(shown, value))}]"
    if type(value) is tuple:
        return f"({shown(value[0])},)" if len(value) == 1 else f"({', '.join(map(shown, value))})"
    if type(value) is dict:
        return "{" + ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value.items()) + "}"
    return str(value)


def formatted(text: str, *values: object) -> str:
    """A text with values in place of ``{}``; as in TorchScript, nothing else in braces is replaced."""
    first, *rest = text.split("{}")
    if len(rest) > len(values):
        raise IndexError("too few arguments for format string")
    return first + "".join(f"{shown(value)}{piece}" for value, piece in zip(values, rest, strict=False))


def percent_formatted(text: str, *values: object) -> str:
    """Python's ``%`` without widths, because a large width would take any amount of memory."""
    if not PERCENT_FORMAT.fullmatch(text):
        raise ValueError(f"unsupported format: {text!r}")
    (given, *rest) = values or ((),)
    operands = given if isinstance(given, tuple) and not rest else values
    kinds = re.findall(r"%(.)", text.replace("%%", ""), re.DOTALL)
    return text % tuple(
        shown(value) if kind == "s" else value
        for kind, value in zip([*kinds, *[""] * len(operands)], operands, strict=False)
    )


# --- Python functions that run operations in place of PyTorch

DICT_KEY_TYPES = ("int", "float", "bool", "complex", "str", "Tensor")
"""The types of dict keys in TorchScript, as overloads of operators name them."""


def _identity(value: object) -> object:
    return value


def _dict(*values: object) -> dict[object, object]:
    return dict(zip(values[::2], values[1::2], strict=True))


def _present(value: object) -> object:
    if value is None:
        raise ValueError("Unwrapping null optional")
    return value


def _raise(message: object, *_: object) -> None:
    raise RuntimeError(message)


def _print(*values: object) -> None:
    sys.stdout.write(" ".join(map(shown, values)) + "\n")


def _warn(message: str, *_: object) -> None:
    warnings.warn(message, stacklevel=2)


def _disable_gradients() -> bool:
    """Disable gradients; whether they were enabled. The machine enables them again when a run ends."""
    enabled: bool = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)
    return enabled


def _append(items: list[object], item: object) -> list[object]:
    items.append(item)
    return items


def _set_item(items: Any, key: object, item: object) -> Any:  # noqa: ANN401
    items[key] = item
    return items


def _tensor(
    data: list[object],
    dtype: int | None,
    device: torch.device | None,
    requires_grad: bool = False,  # noqa: FBT001, FBT002
) -> torch.Tensor:
    kind = None if dtype is None else torch._C._get_operation_overload("aten::empty", "memory_format")[0]
    return torch.tensor(
        data,
        dtype=None if kind is None else kind([0], dtype=dtype).dtype,
        device=device,
        requires_grad=requires_grad,
    )


PYTHON_CALLS: dict[str, Call] = {
    "prim::ListConstruct": lambda *values: list(values),
    "prim::TupleConstruct": lambda *values: values,
    "prim::DictConstruct": _dict,
    "prim::ListUnpack": tuple,
    "prim::TupleUnpack": tuple,
    "prim::TupleIndex": operator.getitem,
    "prim::unchecked_cast": _identity,
    "prim::unchecked_unwrap_optional": _identity,
    "prim::shape": lambda tensor: list(tensor.shape),
    "prim::tolist": lambda tensor, *_: tensor.tolist(),
    "prim::Enter": _disable_gradients,
    "prim::Exit": torch._C._set_grad_enabled,
    "prim::RaiseException": _raise,
    "prim::Print": _print,
    "aten::_unwrap_optional": _present,
    "aten::warn": _warn,
    "aten::format": formatted,
    "aten::percentFormat": percent_formatted,
    "aten::str": shown,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__not__": operator.not_,
    "aten::__contains__": operator.contains,
    "aten::__getitem__": operator.getitem,
    "aten::_set_item": _set_item,
    "aten::Delete": operator.delitem,
    "aten::len": len,
    "aten::Bool": bool,
    "aten::append": _append,
    "aten::extend": lambda items, more: items.extend(more),
    "aten::insert": lambda items, place, item: items.insert(place, item),
    "aten::reverse": lambda items: items.reverse(),
    "aten::clear": lambda items: items.clear(),
    "aten::pop": lambda items, *which: items.pop(*which),
    "aten::popitem": lambda items: items.popitem(),
    "aten::setdefault": lambda items, key, item: items.setdefault(key, item),
    "aten::update": lambda items, more: items.update(more),
    "aten::get": lambda items, key, default=None: items.get(key, default),
    "aten::keys": list,
    "aten::items": lambda items: list(items.items()),
    "aten::copy.t": list,
    "aten::list": list,
    "aten::dict": dict,
    "aten::sorted": sorted,
    "aten::add.t": operator.add,
    "aten::add_.t": operator.iadd,
    "aten::mul.left_t": operator.mul,
    "aten::mul.right_": operator.mul,
    "aten::mul_.t": operator.imul,
    "aten::slice.t": lambda items, start, end, step: items[start:end:step],
    "aten::select.t": operator.getitem,
    "aten::tensor": _tensor,
    "aten::as_tensor.list": _tensor,
    **dict.fromkeys([f"aten::copy.Dict_{kind}" for kind in DICT_KEY_TYPES], dict),
    **dict.fromkeys([f"aten::values.{kind}" for kind in DICT_KEY_TYPES], lambda items: list(items.values())),
    **dict.fromkeys(
        [f"aten::remove.{kind}" for kind in ("int", "float", "bool", "str")],
        lambda items, item: items.remove(item),
    ),
    **dict.fromkeys(
        [f"aten::sort.{kind}" for kind in ("int", "float", "bool", "str", "any")],
        lambda items, reverse: items.sort(reverse=reverse),
    ),
}
"""Functions by the name of the operation, or by its kind for all overloads."""

SCALAR_CALLS: dict[str, Call] = {
    "aten::eq": operator.eq,
    "aten::ne": operator.ne,
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::__xor__": operator.xor,
}
"""Functions by kind, for plain numbers or texts: some twenty times faster than calling PyTorch's operator."""


# --- which operations can be run

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
"""Kinds of operators that act outside the computation, or that only PyTorch's optimizers write."""

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
        most: most inputs; None: any number.
        outs: outputs; None: any number.
    """

    least: int
    most: int | None
    outs: int | None

    def fits(self, outs: int, ins: int) -> bool:
        """Whether an operation can have this many outputs and inputs."""
        if self.outs is not None and outs != self.outs:
            return False
        return ins >= self.least and (self.most is None or ins <= self.most)


@lru_cache(maxsize=4096)
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
        known: the values of registers that never change. Keyword-only arguments that are all among these are
            bound to the function now.
    """
    own = _own(name)
    if own is not None:
        return own, ins
    schema = _schema(name)
    if kind_of(name) in SCALAR_CALLS and all(
        argument.type.kind() in SCALAR_TYPES for argument in schema.arguments
    ):
        return SCALAR_CALLS[kind_of(name)], ins
    call = torch._C._get_operation_overload(*_parts(name))[0]
    positional = sum(not argument.kwarg_only for argument in schema.arguments)
    keywords = schema.arguments[positional:]
    if not all(register in known for register in ins[positional:]):
        return partial(_with_keywords, call, [keyword.name for keyword in keywords]), ins
    given = {
        argument.name: known[register]
        for argument, register in zip(keywords, ins[positional:], strict=True)
        if not _is_default(argument, known[register])
    }
    return (partial(call, **given) if given else call), ins[:positional]


class Kind(NamedTuple):
    """What is recorded of an operation.

    Attributes:
        name: its kind.
        is_operator: whether PyTorch's dispatcher runs it, not Python.
        changes: whether it may change its arguments.
        bound: the arguments that :func:`prepared` has bound to its function.
    """

    name: str
    is_operator: bool
    changes: bool
    bound: Mapping[str, Any]


def recorded_kind(name: str, call: Call) -> Kind:
    """What is recorded of an operation.

    Args:
        call: the function that runs it.
    """
    kind = kind_of(name)
    is_operator = not (_own(name) or call is SCALAR_CALLS.get(kind))
    changes = is_operator and _schema(name).is_mutable
    return Kind(kind, is_operator, changes, getattr(call, "keywords", {}))


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
    kinds = {kind for argument in (*schema.arguments, *schema.returns) for kind in _kinds(argument.type)}
    written = [
        argument
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return kinds <= CALLABLE_TYPES and all(
        argument.type.kind() in ("TensorType", "OptionalType") for argument in written
    )


def _kinds(kind: Any) -> Iterator[str]:  # noqa: ANN401 (a torch._C.Type)
    """The kinds of a type and of all types in it; for a C++ class, its name without the last part."""
    if kind.kind() == "ClassType":
        yield kind.annotation_str.rpartition(".")[0]
        return
    yield kind.kind()
    for inner in kind.containedTypes():
        yield from _kinds(inner)
