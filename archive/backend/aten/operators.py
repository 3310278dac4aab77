"""The operations that can be run from Python, and what runs each.

An operation is named by its kind and, behind a point, the overload of its schema: ``aten::add.Tensor``,
``aten::relu``, ``prim::ListConstruct``. What can be run follows from the name alone, by these rules, the
same for graphs and for texts that anybody may have written:

1. Whatever ``OWN`` has is run by Python: lists and dicts, which PyTorch would copy on their way into an
   operator, so that changes are lost; values of any type, for which operators cannot be called from Python;
   and what no operator does: ``prim::Print``, ``prim::RaiseException``, ``aten::warn``.
2. Otherwise the operator that PyTorch has registered under the name is called, if

   - its namespace is ``aten`` or ``prim``,
   - it takes and makes nothing but tensors, numbers, texts, devices, and lists, dicts and tuples of these,
   - it changes no list or dict,
   - and it does not reach out of the computation (``OUTSIDE``): files, random seeds and generators, settings
     of the process, gradients of other tensors, the storage of a tensor under another one's name; nor trusts
     indices without looking at them.

It is no sandbox. As in TorchScript, operators may print, take any time and memory, and change parameters in
place; a fault in one of PyTorch's operators is a fault here too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.aten.calls import COMPARED, OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Call = Callable[..., Any]

NAME = re.compile(r"((?:aten|prim)::[A-Za-z_]\w*)(?:\.(\w+))?", re.ASCII)
OUTSIDE = re.compile(
    r"aten::(save|from_file|_print|manual_seed|seed|initial_seed|Generator|set_grad_enabled|_cufft_\w+|_test_\w+"
    r"|backward|_backward|retain_grad|get_gradients|set_|set_data|_index_put_impl_?|_unsafe_(index|masked)\w*"
    r"|_sparse_\w+_unsafe)"
    r"|prim::(TimePoint|AddStatValue|BailoutTemplate|Guard|\w*MKLDNN\w*|mkldnn_\w+)"
)
"""Operators by kind that reach out of the computation, and what only PyTorch's optimizers write."""

SCALARS = frozenset({"IntType", "FloatType", "BoolType", "StringType"})
PLAIN = SCALARS | {
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
}
"""Types of operators that are called. (There is no value for a generator but None.)"""

UNBOUNDED: dict[str, tuple[int, int | None, int | None]] = {
    "prim::ListConstruct": (0, None, 1),
    "prim::TupleConstruct": (0, None, 1),
    "prim::DictConstruct": (0, None, 1),
    "prim::ListUnpack": (1, 1, None),
    "prim::TupleUnpack": (1, 1, None),
    "prim::shape": (1, 1, 1),
    "prim::tolist": (3, 3, 1),
    "prim::Print": (0, None, 0),
    "aten::format": (1, None, 1),
    "aten::percentFormat": (1, None, 1),
}
"""Names whose schema does not tell how many values they take (at least, at most) and make; None: any."""


@dataclass(frozen=True, slots=True)
class Arity:
    """How many values an operation takes and makes.

    Attributes:
        least: values it takes at least.
        most: values it takes at most; None: any number.
        outs: values it makes; None: any number.
    """

    least: int
    most: int | None
    outs: int | None

    def fits(self, outs: int, ins: int) -> bool:
        """Whether so many values can be made of so many."""
        return (self.outs is None or outs == self.outs) and self.least <= ins <= (
            ins if self.most is None else self.most
        )


def operator_name(kind: str, schema: str) -> str:
    """The name of an operation, of its kind and its schema as text ("" where it has none)."""
    overload = torch._C.parse_schema(schema).overload_name if schema else ""
    return f"{kind}.{overload}" if overload else kind


def kind_of(name: str) -> str:
    """The kind of an operation: its name without the overload."""
    return name.partition(".")[0]


def supported(name: str) -> bool:
    """Whether an operation can be run, by the rules of this module."""
    return arity(name) is not None


@lru_cache(maxsize=4096)
def arity(name: str) -> Arity | None:
    """How many values an operation takes and makes; None if it cannot be run."""
    if name in UNBOUNDED:
        return Arity(*UNBOUNDED[name])
    schema = _schema(name)
    if schema is None or not (_own(name) or _callable(name, schema)):
        return None
    count = len(schema.arguments)
    return Arity(count, count, len(schema.returns))


def prepared(name: str, ins: tuple[int, ...], known: Mapping[int, Any]) -> tuple[Call, tuple[int, ...]]:
    """What runs an operation, and the registers whose values it then takes, by position.

    Args:
        name: of an operation that is supported.
        ins: the registers of all its values.
        known: registers whose values never change. Keyword-only arguments among these are given beforehand.
    """
    own = _own(name)
    if own is not None:
        return own, ins
    schema = _schema(name)
    if kind_of(name) in COMPARED and all(one.type.kind() in SCALARS for one in schema.arguments):
        return COMPARED[kind_of(name)], ins
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
    if not argument.has_default_value() or type(value) not in (bool, int, float, str, type(None)):
        return False
    default = argument.default_value
    return type(default) is type(value) and bool(default == value)


def _own(name: str) -> Call | None:
    return OWN.get(name) or OWN.get(kind_of(name))


def _parts(name: str) -> tuple[str, str]:
    kind, _, overload = name.partition(".")
    return kind, overload


def _schema(name: str) -> Any:  # noqa: ANN401 (a torch._C.FunctionSchema)
    """The schema of a registered operator; None if there is none."""
    if not NAME.fullmatch(name):
        return None
    try:
        return torch._C._get_schema(*_parts(name))
    except RuntimeError:
        return None


def _callable(name: str, schema: Any) -> bool:  # noqa: ANN401
    """Whether the operator that PyTorch has is one to call."""
    if OUTSIDE.fullmatch(kind_of(name)) or "..." in str(schema):
        return False
    kinds = {kind for one in (*schema.arguments, *schema.returns) for kind in _kinds(one.type)}
    changed = [one for one in schema.arguments if one.alias_info is not None and one.alias_info.is_write]
    return kinds <= PLAIN and all(one.type.kind() in ("TensorType", "OptionalType") for one in changed)


def _kinds(kind: Any) -> Iterator[str]:  # noqa: ANN401 (a torch._C.Type)
    """The kinds of a type and of all that it contains."""
    yield kind.kind()
    for inner in kind.containedTypes():
        yield from _kinds(inner)
