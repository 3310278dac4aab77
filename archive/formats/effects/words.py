"""The words of a table, a row each: ops of effects, looks of guards, and operations of computed numbers.

A row says what an op takes or what a look compares, and how it is written in Python. A model that asks ``if
self.count > 2`` is captured with a guard on ``self.count > 2``, a computed number whose parts are rows of the
record.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from archive.formats.effects.gate import check_hooks, check_place, check_setting
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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.formats.effects.model import Literal


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
        text: the statement, with ``source``, ``key``, ``value``, ``name`` (the key, without quotes), ``code``
            (the class or function that is the key), ``hooks`` and ``handle``.
        key: the key that the op takes.
        value: the value that it takes.
        source: the kind of source that it changes.
        odd: the statement if ``name`` isn't an identifier; "": as usual.
    """

    text: str
    key: OperandKind = OperandKind.NOTHING
    value: OperandKind = OperandKind.NOTHING
    source: type = object
    odd: str = ""


ANY, TEXT, HOOK, HANDLE = OperandKind.ANY, OperandKind.TEXT, OperandKind.HOOK, OperandKind.HANDLE
OPS = {
    Op.NEW: OpRule(
        "{source} = object.__new__({code})", OperandKind.QUALIFIED_NAME, OperandKind.EMPTY, Temporary
    ),
    Op.SET_ATTRIBUTE: OpRule(
        "{source}.{name} = {value}", TEXT, ANY, odd="setattr({source}, {name!r}, {value})"
    ),
    Op.DELETE_ATTRIBUTE: OpRule("del {source}.{name}", TEXT, odd="delattr({source}, {name!r})"),
    Op.REGISTER_BUFFER: OpRule("{source}.register_buffer({key}, {value})", TEXT, ANY),
    Op.REGISTER_TRANSIENT: OpRule("{source}.register_buffer({key}, {value}, persistent=False)", TEXT, ANY),
    Op.SET_ITEM: OpRule("{source}[{key}] = {value}", ANY, ANY),
    Op.DELETE_ITEM: OpRule("del {source}[{key}]", ANY),
    Op.APPEND: OpRule("{source}.append({value})", value=ANY),
    Op.EXTEND: OpRule("{source}.extend({value})", value=ANY),
    Op.INSERT: OpRule("{source}.insert({key}, {value})", ANY, ANY),
    Op.POP: OpRule("{source}.pop({key})", OperandKind.OPTIONAL),
    Op.APPEND_LEFT: OpRule("{source}.appendleft({value})", value=ANY),
    Op.POP_LEFT: OpRule("{source}.popleft()"),
    Op.ADD: OpRule("{source}.add({value})", value=ANY),
    Op.DISCARD: OpRule("{source}.discard({value})", value=ANY),
    Op.CLEAR: OpRule("{source}.clear()"),
    Op.SET_GLOBAL: OpRule(
        "{source}.{name} = {value}", value=ANY, source=GlobalName, odd="setattr({source}, {name!r}, {value})"
    ),
    Op.SET_CELL: OpRule("{source} = {value}", value=ANY, source=ClosureCell),
    Op.COPY: OpRule("{source}.copy_({value})", value=ANY),
    Op.SAVE_FOR_BACKWARD: OpRule("{source}.save_for_backward(*{value})", value=ANY),
    Op.REGISTER_HOOK: OpRule("{handle} = {source}.register_hook({hooks})", HOOK, HANDLE),
    Op.REGISTER_GRAD_HOOK: OpRule(
        "{handle} = {source}.register_post_accumulate_grad_hook({hooks})", HOOK, HANDLE
    ),
    Op.REGISTER_BACKWARD_HOOKS: OpRule("put_on_backward_hooks({source}, {value}, {hooks})", ANY, ANY),
    Op.SET_BACKWARD: OpRule(
        "set_backward({source}, {code}, *{value})", OperandKind.QUALIFIED_NAME, ANY, Temporary
    ),
    Op.CALL: OpRule("", ANY, ANY, GlobalName),  # the text of the call itself: ``source_text``
    Op.TAKE_OFF: OpRule("{source}.remove()"),
}
ATTRIBUTE_OPS = tuple(op for op, rule in OPS.items() if rule.key is TEXT)
"""Ops whose key is the name of an attribute."""
HOOK_OPS = tuple(op for op, rule in OPS.items() if rule.key is HOOK)
"""Ops whose key is a hook."""


class LookRule(NamedTuple):
    """What guards of one look are.

    Attributes:
        value: ``At``, or the exact type of the constant that is the guard's value; ``object``: any type.
        text: the condition, with ``subject``, ``key`` and ``value``, and ``word`` and ``option``: value and
            key without quotes.
        key: the type of the constant that is the guard's key; None: the guard has no key.
        subjects: the kinds of subjects.
        texts: the condition for special values.
        of_tensor: whether it looks at a tensor's metadata.
        check_key: refuses names that no guard may have as its key.
    """

    value: type
    text: str
    key: type | None = None
    subjects: tuple[type, ...] = (At, Output)
    texts: Mapping[Literal, str] = {}
    of_tensor: bool = False
    check_key: Callable[[str], None] = lambda _: None


IS: dict[Literal, str] = dict.fromkeys((None, True, False), "{subject} is {value}")
LOOKS = {
    Look.EQUAL: LookRule(object, "{subject} == {value}", subjects=(At, Output, Computed), texts=IS),
    Look.TEXT: LookRule(str, "str({subject}) == {value}"),
    Look.TYPE: LookRule(
        str,
        "type({subject}) is {word}",
        texts={"tensor": "isinstance({subject}, torch.Tensor)"},
        of_tensor=True,
    ),
    Look.RANGE: LookRule(int, "-{value} <= {subject} <= {value}"),
    Look.LENGTH: LookRule(int, "len({subject}) == {value}"),
    Look.KEYS: LookRule(tuple, "tuple({subject}) == {value}"),
    Look.HAS: LookRule(bool, "{key} in {subject}", object, texts={False: "{key} not in {subject}"}),
    Look.ATTRIBUTE: LookRule(bool, "hasattr({subject}, {key}) is {value}", str, check_key=check_place),
    Look.IS_NONE: LookRule(bool, "{subject} is None", subjects=(At,), texts={False: "{subject} is not None"}),
    Look.HOOKS: LookRule(tuple, "hooks({subject}, {key}) == {value}", str, check_key=check_hooks),
    Look.SAME: LookRule(At, "{subject} is {value}"),
    Look.APART: LookRule(At, "apart({subject}, {value})"),
    Look.DIM: LookRule(int, "{subject}.dim() == {value}", of_tensor=True),
    Look.SIZE: LookRule(int, "{subject}.size({key}) == {value}", int, of_tensor=True),
    Look.SHAPE: LookRule(tuple, "{subject}.shape == {value}", of_tensor=True),
    Look.STRIDE: LookRule(tuple, "{subject}.stride() == {value}", of_tensor=True),
    Look.DTYPE: LookRule(str, "{subject}.dtype == {word}", of_tensor=True),
    Look.KIND: LookRule(
        str,
        "{subject}.kind == {value}",
        texts={
            "float": "{subject}.is_floating_point()",
            "complex": "{subject}.is_complex()",
            "bool": "{subject}.dtype == torch.bool",
            "int": "is_int({subject}.dtype)",
        },
        of_tensor=True,
    ),
    Look.DEVICE: LookRule(str, "str({subject}.device) == {value}", of_tensor=True),
    Look.REQUIRES_GRAD: LookRule(bool, "{subject}.requires_grad is {value}", of_tensor=True),
    Look.SETTING: LookRule(object, "{option} is {value}", str, (Constant,), check_key=check_setting),
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
