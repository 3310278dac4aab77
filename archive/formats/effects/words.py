"""The words of a table, a row each: ops of effects, looks of guards, and operations of computed numbers.

A row says what an op takes or what a look compares, and how it is written in Python. A model that asks ``if
self.count > 2`` is captured with a guard on ``self.count > 2``, a computed number whose parts are rows of the
record.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from archive.formats.effects.model import (
    At,
    ClosureCell,
    Computed,
    Constant,
    GlobalName,
    Look,
    Op,
    Output,
    Temporary,
)


class OperandKind(StrEnum):
    """Kinds of keys and values that an op takes."""

    NOTHING = "nothing"
    ANY = "a value"
    OPTIONAL = "a value or nothing"
    TEXT = "a text"
    QUALIFIED_NAME = "module:qualname"
    NUMBER = "a number from 0"
    HOOK = "a hook"
    HANDLE = "a number from 0 or a handle"
    EMPTY = "an empty container or nothing"


class OpRule(NamedTuple):
    """What effects of one op are.

    Attributes:
        text: the statement, with ``source``, ``key`` and ``value``; "" if the form depends on these.
        key: the key that the op takes.
        value: the value that it takes.
        source: the kind of source that it changes.
    """

    text: str = ""
    key: OperandKind = OperandKind.NOTHING
    value: OperandKind = OperandKind.NOTHING
    source: type = object


OPS = {
    Op.NEW: OpRule(key=OperandKind.QUALIFIED_NAME, value=OperandKind.EMPTY, source=Temporary),
    Op.SET_ATTRIBUTE: OpRule(key=OperandKind.TEXT, value=OperandKind.ANY),
    Op.DELETE_ATTRIBUTE: OpRule(key=OperandKind.TEXT),
    Op.REGISTER_BUFFER: OpRule("{source}.register_buffer({key}, {value})", OperandKind.TEXT, OperandKind.ANY),
    Op.REGISTER_TRANSIENT: OpRule(
        "{source}.register_buffer({key}, {value}, persistent=False)", OperandKind.TEXT, OperandKind.ANY
    ),
    Op.SET_ITEM: OpRule("{source}[{key}] = {value}", OperandKind.ANY, OperandKind.ANY),
    Op.DELETE_ITEM: OpRule("del {source}[{key}]", OperandKind.ANY),
    Op.APPEND: OpRule("{source}.append({value})", value=OperandKind.ANY),
    Op.EXTEND: OpRule("{source}.extend({value})", value=OperandKind.ANY),
    Op.INSERT: OpRule("{source}.insert({key}, {value})", OperandKind.ANY, OperandKind.ANY),
    Op.POP: OpRule("{source}.pop({key})", OperandKind.OPTIONAL),
    Op.APPEND_LEFT: OpRule("{source}.appendleft({value})", value=OperandKind.ANY),
    Op.POP_LEFT: OpRule("{source}.popleft()"),
    Op.ADD: OpRule("{source}.add({value})", value=OperandKind.ANY),
    Op.DISCARD: OpRule("{source}.discard({value})", value=OperandKind.ANY),
    Op.CLEAR: OpRule("{source}.clear()"),
    Op.SET_GLOBAL: OpRule(value=OperandKind.ANY, source=GlobalName),
    Op.SET_CELL: OpRule(value=OperandKind.ANY, source=ClosureCell),
    Op.COPY: OpRule("{source}.copy_({value})", value=OperandKind.ANY),
    Op.SAVE_FOR_BACKWARD: OpRule("{source}.save_for_backward(*{value})", value=OperandKind.ANY),
    Op.REGISTER_HOOK: OpRule(key=OperandKind.HOOK, value=OperandKind.HANDLE),
    Op.REGISTER_GRAD_HOOK: OpRule(key=OperandKind.HOOK, value=OperandKind.HANDLE),
    Op.SET_BACKWARD: OpRule(key=OperandKind.QUALIFIED_NAME, value=OperandKind.ANY, source=Temporary),
    Op.CALL: OpRule(key=OperandKind.ANY, value=OperandKind.ANY, source=GlobalName),
    Op.REGISTER_BACKWARD_HOOKS: OpRule(key=OperandKind.ANY, value=OperandKind.ANY),
    Op.TAKE_OFF: OpRule("{source}.remove()"),
}


class LookRule(NamedTuple):
    """What guards of one look are.

    Attributes:
        value: ``At``, or the exact type of the constant that is the guard's value; ``object``: any type.
        text: the condition, with ``subject``, ``key`` and ``value``; "" if the form depends on these.
        key: the type of the constant that is the guard's key; None: the guard has no key.
        subjects: the kinds of subjects.
    """

    value: type
    text: str = ""
    key: type | None = None
    subjects: tuple[type, ...] = (At, Output)


LOOKS = {
    Look.EQUAL: LookRule(object, "{subject} == {value}", subjects=(At, Output, Computed)),
    Look.TEXT: LookRule(str, "str({subject}) == {value}"),
    Look.TYPE: LookRule(str),
    Look.RANGE: LookRule(int, "-{value} <= {subject} <= {value}"),
    Look.LENGTH: LookRule(int, "len({subject}) == {value}"),
    Look.KEYS: LookRule(tuple, "tuple({subject}) == {value}"),
    Look.HAS: LookRule(bool, key=object),
    Look.ATTRIBUTE: LookRule(bool, "hasattr({subject}, {key}) is {value}", key=str),
    Look.IS_NONE: LookRule(bool, subjects=(At,)),
    Look.HOOKS: LookRule(tuple, "hooks({subject}, {key}) == {value}", key=str),
    Look.SAME: LookRule(At, "{subject} is {value}"),
    Look.APART: LookRule(At, "apart({subject}, {value})"),
    Look.DIM: LookRule(int, "{subject}.dim() == {value}"),
    Look.SIZE: LookRule(int, "{subject}.size({key}) == {value}", key=int),
    Look.SHAPE: LookRule(tuple, "{subject}.shape == {value}"),
    Look.STRIDE: LookRule(tuple, "{subject}.stride() == {value}"),
    Look.DTYPE: LookRule(str),
    Look.KIND: LookRule(str),
    Look.DEVICE: LookRule(str, "str({subject}.device) == {value}"),
    Look.REQUIRES_GRAD: LookRule(bool, "{subject}.requires_grad is {value}"),
    Look.SETTING: LookRule(object, key=str, subjects=(Constant,)),
}

COMPUTED = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "truediv": "{} / {}",
    "floordiv": "{} // {}",
    "mod": "{} % {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "gt": "{} > {}",
    "ge": "{} >= {}",
    "eq": "{} == {}",
    "ne": "{} != {}",
    "neg": "-{}",
    "abs": "abs({})",
    "int": "int({})",
    "float": "float({})",
    "min": "min({}, {})",
    "max": "max({}, {})",
    "size_of": "{}.size({})",
    "numel": "{}.numel()",
}
"""Operations of computed numbers, as Python computes them, with blanks for the operands.

There are no powers and shifts: a few of them would make numbers that fill memory.
"""
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
"""Operations whose result is True or False."""
