"""Effects of a method: where values live, what values are made of, and what is done with them.

A method with effects is a pure graph and a table. The graph takes the method's arguments and, behind them,
what is read from state; it gives the method's results and whatever else the effects need. After it has run,
the effects are done in their order: temporaries first, then hooks, then all mutations.

Everything here is plain data, safe to read from anywhere; nothing is looked up or run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Literal: TypeAlias = "bool | int | float | str | bytes | tuple[Literal, ...] | None"
"""What a constant may be."""


@dataclass(frozen=True, slots=True)
class Local:
    """An argument of the method; ``self`` is the module."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an object."""

    base: Source
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list, tuple or dict; a negative index counts from the end."""

    base: Source
    key: Literal


@dataclass(frozen=True, slots=True)
class GlobalName:
    """A global name of a Python module."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class ClosureCell:
    """A variable that a function shares with the function around it; the function as ``module:qualname``."""

    function: str
    name: str


@dataclass(frozen=True, slots=True)
class Temporary:
    """An object that the effects themselves make, by its number."""

    number: int


Source: TypeAlias = Local | Attribute | Item | GlobalName | ClosureCell | Temporary
"""Where a value lives."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the graph gives at a place, from 0."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is always the same."""

    value: Literal


@dataclass(frozen=True, slots=True)
class At:
    """What lived somewhere before any effect."""

    source: Source


@dataclass(frozen=True, slots=True)
class Made:
    """A new list, tuple, dict or ``torch.Size`` of values; a dict has its keys and values in turn."""

    kind: str
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class New:
    """An object that an effect ``new`` makes, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor that is kept beside the table, by its number; in what state was at first alone."""

    number: int


Value: TypeAlias = Output | Constant | At | Made | New | Stored
"""What an effect puts somewhere, or a method returns."""


class Op(StrEnum):
    """What an effect does; ``source``, ``key`` and ``value`` as in the comment."""

    NEW = "new"  # makes temporary `source` of the class `key` ("module:qualname"), without __init__
    SET_ATTRIBUTE = "setattr"  # source.key = value
    DELETE_ATTRIBUTE = "delattr"  # del source.key
    SET_ITEM = "setitem"  # source[key] = value
    DELETE_ITEM = "delitem"  # del source[key]
    APPEND = "append"  # source.append(value)
    EXTEND = "extend"  # source.extend(value)
    INSERT = "insert"  # source.insert(key, value)
    POP = "pop"  # source.pop(key)
    CLEAR = "clear"  # source.clear()
    SET_GLOBAL = "setglobal"  # source is a GlobalName
    SET_CELL = "setcell"  # source is a ClosureCell
    COPY = "copy"  # source.copy_(value): a tensor that was changed in place
    SAVE_FOR_BACKWARD = "save_for_backward"  # source is the context, value a tuple
    REGISTER_HOOK = "register_hook"  # source.register_hook(key: "module:qualname"); value: its number
    REMOVE_HOOK = "remove_hook"  # the hook of that number


@dataclass(frozen=True, slots=True)
class Effect:
    """One change.

    Attributes:
        op: what is done.
        source: to what.
        key: which attribute, item, class or function; None where the op has none.
        value: what is put there; None where the op has none.
        handle: debug handle of the model's statement; -1 where it has none.
    """

    op: Op
    source: Source
    key: Value | None = None
    value: Value | None = None
    handle: int = -1


class Look(StrEnum):
    """What a guard looks at in its subject; ``key`` and ``value`` as in the comment."""

    EQUAL = "equal"  # it equals `value`, and is of the same type
    TEXT = "text"  # str() of it is `value`
    TYPE = "type"  # its type is `value`: "tensor", "int", …; "module:qualname" for other classes
    RANGE = "range"  # it is an int, and no further from 0 than `value`
    LENGTH = "length"  # it has `value` items
    KEYS = "keys"  # its keys are `value`, in this order
    HAS = "has"  # whether it has the key `key`
    ATTRIBUTE = "attribute"  # whether it has the attribute `key`
    SAME = "same"  # it is what lives at the source `value`
    APART = "apart"  # it is not, and shares no memory with that
    DIM = "dim"  # of a tensor: how many dimensions
    SIZE = "size"  # its size in dimension `key`
    SHAPE = "shape"  # all its sizes
    STRIDE = "stride"  # its strides
    DTYPE = "dtype"  # "torch.float32"
    KIND = "kind"  # "float", "complex", "int" or "bool"
    DEVICE = "device"  # "cpu"
    REQUIRES_GRAD = "requires_grad"  # whether it does
    SETTING = "setting"  # of PyTorch, called `key`; the subject is None


@dataclass(frozen=True, slots=True)
class Guard:
    """What was so when the model was captured, and must be so at each call.

    Attributes:
        look: what is looked at.
        subject: in what: something that lives somewhere, or what the graph gives.
        value: what it was.
        key: see ``Look``.
        handle: debug handle of the model's statement that relies on it; -1 where it has none.
    """

    look: Look
    subject: Value
    value: Value
    key: Value | None = None
    handle: int = -1


@dataclass(frozen=True, slots=True)
class MethodEffects:
    """All that a method does.

    Attributes:
        method: its name.
        inputs: what the graph takes, the method's own arguments first.
        result: what the method returns.
        effects: what it changes, in this order.
        guards: what must hold before; what is told of the graph's outputs, before the first effect.
        defaults: arguments that may be left out, and what they are then.
    """

    method: str
    inputs: tuple[Source, ...]
    result: Value
    effects: tuple[Effect, ...]
    guards: tuple[Guard, ...] = ()
    defaults: tuple[tuple[Local, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class EffectTable:
    """The effects of a module's methods.

    Attributes:
        methods: for each its effects.
        state: what lived where when the module was captured: all that its methods read or change, the
            outer before the inner; lists and dicts as ``Made``, tensors as ``Stored``. Objects have no value
            of their own: they are what attributes are of.
    """

    methods: tuple[MethodEffects, ...]
    state: tuple[tuple[Source, Value], ...]
