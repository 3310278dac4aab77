"""Facts of side effects: sources, values, effects and guards of a module's methods.

A method with effects is a pure graph and a :class:`MethodEffects`. The graph takes the method's arguments and
values read from state; it returns the method's results and the new values that the effects need. After it has
run, the effects are applied in their order: temporaries first, then hooks, then all other changes.

Everything here is plain data, safe to read from any file; nothing is looked up or run.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from archive.base.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TorchName:
    """A dtype or device of PyTorch, as it appears in keys of dicts.

    Attributes:
        kind: ``dtype`` or ``device``.
        text: as PyTorch writes it: ``torch.float32``, ``cuda:0``.
    """

    kind: str
    text: str


Literal: TypeAlias = "bool | int | float | str | bytes | TorchName | tuple[Literal, ...] | None"
"""The value of a constant."""


@dataclass(frozen=True, slots=True)
class Local:
    """An argument of the method by name; ``self`` is the module."""

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
    """A global name of a Python module: ``tests.models``, ``COUNT``."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class ClosureCell:
    """A variable in a function's closure; the function is ``module:qualname``."""

    function: str
    name: str


@dataclass(frozen=True, slots=True)
class Temporary:
    """An object that an effect ``new`` creates, as the place of attributes and items; by number."""

    number: int


@dataclass(frozen=True, slots=True)
class Length:
    """The length of a list, read like a place but never set."""

    base: Source


@dataclass(frozen=True, slots=True)
class Each:
    """All items of a list; only as the subject of a guard, which must then hold for each item."""

    base: Source


Source: TypeAlias = Local | Attribute | Item | GlobalName | ClosureCell | Temporary | Length | Each
"""The place of a value."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output of the graph, from 0."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal value."""

    value: Literal


@dataclass(frozen=True, slots=True)
class At:
    """The value at a source before any effect."""

    source: Source


@dataclass(frozen=True, slots=True)
class Made:
    """A new list, tuple, dict or size (``torch.Size``); items of a dict are keys and values alternately.

    A ``dtype`` or ``device`` of PyTorch has one item, the constant that is its text: ``torch.float32``. A
    ``format`` is a text: a template of ``str.format``, and its values. An ``inference`` tensor has an
    output as its item. :mod:`archive.formats.effects.hooks` has the items of hooks, and
    :mod:`archive.formats.effects.containers` those of sets, deques, named tuples and the like.
    """

    kind: str
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class New:
    """An object that an effect ``new`` creates, as a value; by number."""

    number: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor kept beside the table, by number; only in the table's state."""

    number: int


@dataclass(frozen=True, slots=True)
class Computed:
    """A number that Python computes from others before any effect, as the model does; a subject of guards.

    Attributes:
        op: a word of :data:`archive.formats.effects.words.COMPUTED`.
        items: its operands: constants, sources and other computed numbers.
    """

    op: str
    items: tuple[Value, ...]


Value: TypeAlias = Output | Constant | At | Made | New | Stored | Computed
"""The value that an effect uses, a method returns, or a source holds at capture."""


class Op(StrEnum):
    """Kind of an effect: a comment shows it where :data:`archive.formats.effects.words.OPS` has no text."""

    NEW = "new"  # source = object.__new__(key), a temporary; value: an empty container that it derives from
    SET_ATTRIBUTE = "setattr"  # source.key = value
    DELETE_ATTRIBUTE = "delattr"  # del source.key
    REGISTER_BUFFER = "register_buffer"
    REGISTER_TRANSIENT = "register_transient"
    SET_ITEM = "setitem"
    DELETE_ITEM = "delitem"
    APPEND = "append"
    EXTEND = "extend"
    INSERT = "insert"
    POP = "pop"
    APPEND_LEFT = "appendleft"
    POP_LEFT = "popleft"
    ADD = "add"
    DISCARD = "discard"
    CLEAR = "clear"
    SET_GLOBAL = "setglobal"  # source = value
    SET_CELL = "setcell"  # source = value
    COPY = "copy"
    SAVE_FOR_BACKWARD = "save_for_backward"
    REGISTER_HOOK = "register_hook"  # hooks[value] = source.register_hook(key); or value: a new handle
    REGISTER_GRAD_HOOK = "register_post_accumulate_grad_hook"  # the same
    REGISTER_BACKWARD_HOOKS = "register_backward_hooks"  # of a module, source: see ``hooks``
    SET_BACKWARD = "set_backward"  # of a context, source; key: the function; value: (results, arguments)
    CALL = "call"  # source(*value), one of the functions of ``known_calls``; key: its settings
    TAKE_OFF = "take_off"


ATTRIBUTE_OPS = (Op.SET_ATTRIBUTE, Op.DELETE_ATTRIBUTE, Op.REGISTER_BUFFER, Op.REGISTER_TRANSIENT)
"""Ops whose key is the name of an attribute."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One change.

    Attributes:
        op: the kind of change.
        source: the object that changes, or the place that is set.
        key: attribute name, item key, class or hook; None if the op has none.
        value: the new value, or the number or handle of a hook; None if the op has none.
        handle: debug handle of the model's statement; -1 if it has none.
    """

    op: Op
    source: Source
    key: Value | None = None
    value: Value | None = None
    handle: int = -1


class Look(StrEnum):
    """Property of a guard's subject; each comment shows the condition."""

    EQUAL = "equal"  # subject == value, and both have one type
    TEXT = "text"  # str(subject) == value
    TYPE = "type"  # type of subject: "tensor", "int" …; "module:qualname" for other classes
    RANGE = "range"  # subject is an int, -value <= subject <= value
    LENGTH = "length"  # len(subject) == value
    KEYS = "keys"  # tuple(subject) == value, the keys of a dict in order
    HAS = "has"  # (key in subject) is value
    ATTRIBUTE = "attribute"  # hasattr(subject, key) is value
    HOOKS = "hooks"  # names of the hooks of kind key in order == value; subject is a module
    IS_NONE = "is_none"  # (subject is None) is value
    SAME = "same"  # subject is value, an At
    APART = "apart"  # subject is not value, an At, and shares no memory with it
    DIM = "dim"  # subject.dim() == value, a tensor like all below
    SIZE = "size"  # subject.size(key) == value
    SHAPE = "shape"  # subject.shape == value
    STRIDE = "stride"  # subject.stride() == value
    DTYPE = "dtype"  # str(subject.dtype) == value
    KIND = "kind"  # "float", "complex", "int" or "bool", by dtype
    DEVICE = "device"  # str(subject.device) == value
    REQUIRES_GRAD = "requires_grad"  # subject.requires_grad is value
    SETTING = "setting"  # a setting of PyTorch by the name key; subject is the constant None


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that held when the model was captured, and must hold at each call.

    Attributes:
        look: the property compared.
        subject: an ``At``, a ``Computed`` or an ``Output``.
        value: the property's value at capture.
        key: see ``Look``; None if the look has none.
        handle: debug handle of the model's statement that relies on the condition; -1 if it has none.
    """

    look: Look
    subject: Value
    value: Value
    key: Value | None = None
    handle: int = -1


@dataclass(frozen=True, slots=True)
class MethodEffects:
    """The contract of a method's graph: inputs, result, changes and conditions.

    Attributes:
        method: the method's name.
        inputs: sources of the graph's inputs, the method's own arguments first.
        result: the method's result.
        effects: changes, in their order.
        guards: conditions; those on sources are checked before the graph runs, those on its outputs before
            the first change.
        defaults: arguments that a call may leave out, with their values.
    """

    method: str
    inputs: tuple[Source, ...]
    result: Value
    effects: tuple[Effect, ...]
    guards: tuple[Guard, ...] = ()
    defaults: tuple[tuple[Local, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class EffectTable:
    """The effects of a module's methods, and the state that they need.

    Attributes:
        methods: effects of each method. Rows with the same name are entries of this method, each with a graph
            of its own: the entry whose guards hold makes the call.
        state: values at capture of all sources that the methods read or change, outer ones before inner ones;
            lists and dicts are ``Made``, tensors ``Stored``. Objects have no row; their attributes do.
    """

    methods: tuple[MethodEffects, ...]
    state: tuple[tuple[Source, Value], ...]
