"""Inputs of the graph: tensors and numbers that the model reads; and guards on what else it reads.

Guards are conditions that a captured call relies on, noted as the model reads, checked at later calls.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.scalars import is_scalar
from archive.effects.capture.graph.sites import ModelStatement, first_read, span_of
from archive.effects.capture.graph.variables import SOURCES, is_literal
from archive.effects.looking import FOUND, SETTINGS, WITHOUT_MODES, setting
from archive.formats.effects.model import (
    Attribute,
    Computed,
    Each,
    GlobalName,
    Item,
    Length,
    Local,
    Look,
    Temporary,
)
from archive.formats.effects.parts import root_of
from archive.formats.effects.words import LOOKS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from archive.formats.effects.model import Literal, Source


# --- inputs


@dataclass(slots=True)
class GraphInput:
    """One input of the graph.

    Attributes:
        original: the model's own tensor or list, which stays as it is; or a number.
        proxy: the copy, or the number of the graph, that the call works with.
        version: version counter of the copy before the call.
        statement: the statement that last changed the tensor.
        latest: version counter of the copy after that statement.
        silently: whether the tensor was changed without its version counter, as by batch norm.
    """

    source: Source
    node: Any
    original: Any
    proxy: Any
    version: int = 0
    statement: ModelStatement | None = None
    latest: int = 0
    silently: bool = False

    @property
    def tensors(self) -> list[tuple[Any, Any]]:
        """The tensor, or those in the list: the model's own, and the copy."""
        if is_scalar(self.proxy):
            return []
        if not self.is_list:
            return [(self.original, self.proxy)]
        pairs = zip(self.original, self.proxy, strict=True)
        return [(original, copy) for original, copy in pairs if isinstance(copy, torch.Tensor)]

    @property
    def is_list(self) -> bool:
        """Whether the input is a list, which the graph takes as a whole."""
        return type(self.proxy) is list

    @property
    def changed(self) -> bool:
        """Whether a tensor has been changed in place."""
        if is_scalar(self.proxy) or self.is_list:
            return False
        return self.silently or self.proxy._version != self.version


def copied(tensor: Any) -> Any:
    """A tensor with the same contents and no memory in common; a parameter's copy is a parameter."""
    with torch.no_grad():
        copy = tensor.detach().clone()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)
    return copy.requires_grad_(tensor.requires_grad)


SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}
"""The methods that return the strided tensors that make up a sparse tensor."""


BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of as many bytes as a floating-point number."""


def same_elements(tensor: Any, other: Any) -> bool:
    """Whether two tensors have the same layout, dtype, shape and elements.

    Elements are the same by their bits, so 0.0 isn't -0.0; and nan is nan, whichever bits it has.
    Sparse tensors, which would not always fit into memory as dense ones, are compared by indices and values.
    """
    if (tensor.layout, tensor.dtype, tensor.shape) != (other.layout, other.dtype, other.shape):
        return False
    return all(map(_same_dense, _parts(tensor), _parts(other)))


def _parts(tensor: Any) -> list[Any]:
    """The tensors that make up a tensor, in layouts that PyTorch compares, without gradient."""
    tensor = tensor.detach()
    if tensor.layout in SPARSE_PARTS:
        return [getattr(tensor, name)() for name in SPARSE_PARTS[tensor.layout]]
    return [tensor if tensor.layout is torch.strided else tensor.to_dense()]


def _same_dense(tensor: Any, other: Any) -> bool:
    if tensor.shape != other.shape:
        return False
    if tensor.is_complex():
        tensor, other = (torch.view_as_real(each.resolve_conj()) for each in (tensor, other))
    if not tensor.is_floating_point():
        return bool(torch.equal(tensor, other))
    bits, others = (each.resolve_neg().view(BITS[each.itemsize]) for each in (tensor, other))
    return torch.equal(bits, others) or bool(((bits == others) | (tensor.isnan() & other.isnan())).all())


class TensorCopies:
    """Copies of a model's parameters and buffers, shared by consecutive captured calls.

    A copy that a call changed is not used again.
    """

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Any, int]] = {}  # tensor, copy, version; by the tensor's identity

    def of(self, tensor: Any) -> Any:
        """The copy of a tensor."""
        if id(tensor) in self._copies:
            _, copy, version = self._copies[id(tensor)]
            has_gradient = copy.grad is not None or copy._backward_hooks
            if copy._version == version and copy.requires_grad == tensor.requires_grad and not has_gradient:
                return copy
        copy = copied(tensor)
        self._copies[id(tensor)] = tensor, copy, copy._version
        return copy

    def forget(self, changed: Iterable[GraphInput]) -> None:
        """Forget copies that a call changed, even without their version counters."""
        proxies = {id(given.proxy) for given in changed}
        self._copies = {key: row for key, row in self._copies.items() if id(row[1]) not in proxies}

    def check(self) -> None:
        """Forget copies that differ from their tensors, after a call that was not finished."""
        with torch._C.DisableTorchFunction():
            self._copies = {key: row for key, row in self._copies.items() if same_elements(row[0], row[1])}


# --- guards

METADATA = frozenset(look for look, rule in LOOKS.items() if rule.of_tensor)
"""Looks at a tensor's metadata; needless for parameters and buffers that the graph holds itself."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A guard of the running call.

    Attributes:
        subject: a source, or a value that the graph makes; None for settings of PyTorch.
        value: of the property; a source for ``SAME`` and ``APART``.
        reason: why the statement needs a value that calls change; "" for other values.
    """

    look: Look
    subject: object
    value: Any
    key: Literal = None
    statement: ModelStatement | None = None
    reason: str = ""


Held = list[Assumption]
"""Guards that are held back until the model reads what they are about."""


class Guards:
    """The guards of one call, each noted once, at the statement that first relies on it.

    Attributes:
        type_names: the types of containers that aren't plain lists and dicts, by source.
    """

    def __init__(self, here: Callable[[], ModelStatement | None]) -> None:
        self._here = here
        self.settings = {name: setting(name) for name in SETTINGS}
        self.type_names: dict[Source, str] = {}
        self._noted: dict[tuple[object, ...], Assumption] = {}
        self._first_read: dict[str, ModelStatement] = {}
        self._unread: set[str] = set()
        self._sink: Held | None = None

    def note(
        self,
        look: Look,
        subject: object,
        value: Any,
        key: Literal = None,
        statement: ModelStatement | None = None,
        *,
        reason: str = "",
    ) -> None:
        """Note a guard; see ``Assumption``."""
        self._add(Assumption(look, subject, value, key, statement, reason))

    def _add(self, guard: Assumption) -> None:
        if self._sink is not None:
            self._sink.append(guard)
            return
        subject, value = guard.subject, guard.value
        by_value = isinstance(subject, (*SOURCES, Computed))
        other = value if guard.look in (Look.SAME, Look.APART) else None
        identity = (guard.look, subject if by_value else id(subject), guard.key, other)
        if identity in self._noted:
            return
        statement = guard.statement or self._here()
        if isinstance(subject, SOURCES):
            root = root_of(subject)
            if statement is None and isinstance(root, Local):
                statement = self._first_read.get(root.name)
            if guard.look is Look.TYPE:
                value = self.type_names.get(subject, value)
        self._noted[identity] = replace(guard, value=value, statement=statement)

    @contextmanager
    def held(self) -> Iterator[Held]:
        """Collect the guards noted meanwhile, to be released once the model reads what they are about."""
        before, self._sink = self._sink, []
        try:
            yield self._sink
        finally:
            self._sink = before

    def release(self, held: Held) -> None:
        """Note guards that were held back."""
        for guard in held:
            self._add(guard)
        held.clear()

    def tensor(self, given: GraphInput, look: Look, key: Literal = None) -> None:
        """Guard a property of an input tensor, as it was before the call."""
        with WITHOUT_MODES():
            value = FOUND[look](given.original, key)
        self.note(look, given.source, value, key)

    def setting(self, name: str) -> None:
        """Guard a setting of PyTorch, as it was before the call."""
        self.note(Look.SETTING, None, self.settings[name], name)

    def constant(self, value: Any, source: Source, statement: ModelStatement | None = None) -> None:
        """Guard an immutable value, where it lives."""
        if is_literal(value):
            self.note(Look.EQUAL, source, value, None, statement)
        else:
            self.note(Look.TEXT, source, str(value), None, statement)

    def items(self, value: Any, source: Source, reason: str = "") -> None:
        """Guard the type and length of a list or tuple; ``reason``: see ``Assumption``."""
        self.note(Look.TYPE, source, "tuple" if isinstance(value, tuple) else type(value).__name__)
        self.note(Look.LENGTH, source, len(value), reason=reason)

    # --- arguments ---------------------------------------------------------------------------------

    def name_arguments(self, function: Any, names: Iterable[str]) -> None:
        """Find the place where a method first reads each of its arguments."""
        own = inspect.unwrap(function)
        code = getattr(own, "__code__", None)
        if code is None:
            return
        for name in names:
            position = first_read(code, name)
            if position is not None:
                self._first_read[name] = ModelStatement(
                    code.co_filename, position[0], span_of(code, position)
                )
            elif own is function:
                self._unread.add(name)

    def read_all(self) -> None:
        """Note that any argument may be read, since hooks get them too."""
        self._unread.clear()

    def is_read(self, name: str) -> bool:
        """Whether the method, or a decorator around it, may read an argument."""
        return name not in self._unread

    # --- the whole ---------------------------------------------------------------------------------

    def settled(self, fixed: Iterable[Source], ambiguous: Collection[Source]) -> list[Assumption]:
        """The guards that a table holds.

        Args:
            fixed: parameters and buffers that the graph holds itself.
            ambiguous: cells that no name distinguishes.
        """
        fixed = set(fixed)
        return [
            guard
            for guard in self._noted.values()
            if not isinstance(guard.subject, SOURCES)
            or (
                is_reachable(guard.subject)
                and root_of(guard.subject) not in ambiguous
                and not (guard.look in METADATA and guard.subject in fixed)
            )
        ]


def is_reachable(source: Source) -> bool:
    """Whether a table can hold a source, and replay may look there."""
    inner = source
    while isinstance(inner, Attribute | Item | Length | Each):
        if isinstance(inner, Item) and not is_literal(inner.key):
            return False
        if isinstance(inner, Attribute) and inner.name[:2] == inner.name[-2:] == "__":
            return False
        inner = inner.base
    if isinstance(inner, GlobalName):
        return inner.name.isidentifier() and inner.name[:2] != "__"
    return not isinstance(inner, Temporary)
