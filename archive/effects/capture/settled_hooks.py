"""Settles the hooks that a call has put on, once it is over: each becomes a name or a recipe.

A recipe is the function that a hook runs, by name or by its code, and what is bound to it. A hook runs in the
backward pass, after its call, where nothing is captured. So replay registers a function with the same code,
working on the state: recipes hold everything that the code reads and sets there. This must be certain from
the code itself; other hooks are refused.
"""

from __future__ import annotations

import builtins
import logging
from dataclasses import replace
from functools import partial
from inspect import CO_VARARGS
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from archive.effects.capture.following.autograd import HookHandle
from archive.effects.capture.graph.scalars import is_scalar
from archive.effects.capture.graph.sites import (
    contents_of,
    error_at,
    globals_read,
    importable,
    is_model_module,
    sets_globals,
    stores_of,
    uses_of,
)
from archive.effects.capture.graph.variables import (
    DELETED,
    HELD_BY_NAME,
    Recipe,
    VariableKind,
    is_literal,
    is_plain,
    real_class,
)
from archive.effects.capture.proxies.containers import contents
from archive.effects.capture.proxies.proxies import STANDARD_SETTERS, is_followed
from archive.effects.code import digest_of, found_code, holder_of
from archive.effects.placeholders import ABSENT
from archive.effects.places import REGISTERED, static
from archive.formats.effects.model import At, Attribute, Constant, GlobalName

if TYPE_CHECKING:
    from types import CellType, CodeType

    from archive.effects.capture.graph.sites import AttributeUse, ModelStatement
    from archive.effects.capture.graph.variables import Variable
    from archive.effects.capture.table.call import CapturedCall
    from archive.effects.capture.table.pending import Hook
    from archive.formats.effects.model import Source


# --- hook recipes

NO_NAME = "a hook that isn't a function of a Python module: it cannot be found by a name"
UNFOLLOWED = ", which cannot be followed in the backward pass"
AS_THEY_ARE = (ModuleType, type, BuiltinFunctionType, logging.Logger)
"""Types of libraries' globals that hooks use as they are when they run."""


def recipe_of(
    call: CapturedCall,
    hook: Any,
    statement: ModelStatement | None,
    *args: object,
) -> str | Recipe:
    """The recipe of a hook, or its name if that is enough.

    Args:
        args: known arguments that the hook gets before the gradients.
    """
    return _Maker(call, statement).made(hook, args, {})


class _Maker:
    """Makes the recipe of one hook, which a statement registered."""

    def __init__(self, call: CapturedCall, statement: ModelStatement | None) -> None:
        self.call, self.statement = call, statement
        self._reads: dict[Source, None] = {}

    def refuse(self, message: str) -> NoReturn:
        raise error_at(message, self.statement)

    def made(self, hook: Any, args: tuple[Any, ...], named: dict[str, Any]) -> str | Recipe:
        """The recipe of a hook that is called with some first arguments."""
        if type(hook) is partial:
            function = self.made(hook.func, (*hook.args, *args), {**hook.keywords, **named})
            return Recipe("partial", (_as_value(function), tuple(hook.args), dict(hook.keywords)))
        if isinstance(hook, MethodType):
            function = self.made(hook.__func__, (hook.__self__, *args), named)
            return Recipe("method", (_as_value(function), hook.__self__))
        if self._kind(hook) is VariableKind.OBJECT and not isinstance(hook, HookHandle):
            caller = static(real_class(hook).__mro__, "__call__")
            real = self.call.real.get(self.call.side_effects[hook])
            if isinstance(caller, FunctionType) and not isinstance(real, torch.nn.Module):
                return Recipe("method", (_as_value(self.made(caller, (hook, *args), named)), hook))
        if isinstance(hook, FunctionType):
            return self._function(hook, args, named)
        known = self.call.side_effects.variable_of(hook)
        real = hook if known is None else self.call.real.get(known, hook)
        return importable(real) or self.refuse(NO_NAME)

    def _kind(self, value: Any) -> VariableKind | None:
        variable = self.call.side_effects.variable_of(value)
        return None if variable is None else variable.kind

    # --- functions ---------------------------------------------------------------------------------

    def _function(self, given: FunctionType, args: tuple[Any, ...], named: dict[str, Any]) -> str | Recipe:
        """The recipe of a function: its name if it reads nothing but its arguments and code."""
        original = self.call.functions.original(given)
        function, code = original or given, (original or given).__code__
        name = importable(function)
        if not is_model_module(function.__module__):
            return name or self.refuse(NO_NAME)
        if sets_globals(code):
            self.refuse(f"a hook that sets a global: {code.co_name}")
        self._check_arguments(code, args, named)
        cells = tuple(
            self._cell(code, variable, cell)
            for variable, cell in zip(code.co_freevars, given.__closure__ or (), strict=True)
        )
        defaults, by_name = given.__defaults__ or (), given.__kwdefaults__ or {}
        for value in (*defaults, *by_name.values()):
            self._check_value(value)
        self._check_globals(function, code)
        if name is not None and not cells and not self._reads:
            return name
        reads = tuple(map(At, self._reads))
        return Recipe("function", (*self._place(function, code), defaults, by_name, cells, reads))

    def _place(self, function: FunctionType, code: CodeType) -> tuple[Constant, Constant]:
        """The name and digest by which replay finds the code."""
        names: Any = function.__globals__
        real, digest = getattr(names, "real", names), digest_of(code)
        head: Any = ModuleType("")
        vars(head).update(real)
        for part in filter(None, holder_of(code.co_qualname).split(".")):
            head = getattr(head, part, None)
        if found_code(head, code.co_qualname, digest) is None:
            self.refuse(f"a hook whose code no place leads to: {code.co_qualname}")
        return Constant(f"{real.get('__name__')}:{code.co_qualname}"), Constant(digest)

    def _check_arguments(self, code: CodeType, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Check the uses of arguments that are bound when the hook is registered."""
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for variable, value in zip(names[: code.co_argcount], args, strict=False):
            self._check_value(value, code, variable)
        for variable, value in named.items():
            self._check_value(value, code if variable in names else None, variable)
        rest = code.co_varnames[len(names)] if code.co_flags & CO_VARARGS else ""
        for value in args[code.co_argcount :]:
            self._check_value(value, code, rest)

    def _cell(self, code: CodeType, variable: str, cell: CellType) -> Recipe | At:
        """A variable of the function around a hook: of the model's own functions, or created in the call."""
        value = contents_of(cell)
        source = self.call.functions.source_of(cell)
        if value is ABSENT:
            self.refuse(f"a hook with a variable that is not set: {variable}")
        self._check_value(value, code, variable)
        if source is not None:
            return At(source)
        if variable in stores_of(code):
            self.refuse(f"a hook that sets a variable of the function around it: {variable}")
        return Recipe("cell", (value,))

    # --- what code reads by itself -----------------------------------------------------------------

    def _check_globals(self, function: FunctionType, code: CodeType) -> None:
        """Note the globals that code reads and that are data; refuse what is neither data nor code."""
        names: Any = function.__globals__
        real = getattr(names, "real", names)
        for name in globals_read(code):
            value = self.call.snapshot.global_name(real, name)
            if value is ABSENT and hasattr(builtins, name):
                continue
            if value is not ABSENT and self._is_data(value):
                source = GlobalName(str(real.get("__name__")), name)
                self._note(source, value)
            elif value is ABSENT or not self._is_code(value):
                self.refuse(f"a hook that uses {name}{UNFOLLOWED}")

    def _note(self, source: Source, value: Any) -> None:
        """Note a place that code reads, with its value before the call."""
        self.call.originals.setdefault(source, value)
        self._reads[source] = None

    @staticmethod
    def _is_data(value: Any) -> bool:
        return is_plain(value) or isinstance(value, HELD_BY_NAME)

    def _is_code(self, value: Any) -> bool:
        """Whether a global is code of a library, or a function of the model that reads no data."""
        if isinstance(value, FunctionType) and is_model_module(value.__module__):
            inner, count = value.__code__, len(self._reads)
            if value.__closure__ or sets_globals(inner):
                return False
            self._check_globals(value, inner)
            return len(self._reads) == count
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        is_of_library = isinstance(value, logging.Logger) or not is_model_module(module)
        return isinstance(value, (*AS_THEY_ARE, FunctionType)) and is_of_library

    # --- values that hooks hold --------------------------------------------------------------------

    def _check_value(self, value: Any, code: CodeType | None = None, variable: str = "") -> None:
        """Refuse a value that a hook holds unless everything that the hook may do with it is known.

        Args:
            code: that uses the value; None if it may use it in any way.
            variable: by which the code uses the value.
        """
        kind = self._kind(value)
        if (
            isinstance(value, HookHandle)
            or is_scalar(value)
            or is_literal(value)
            or isinstance(value, HELD_BY_NAME)
        ):
            return
        if isinstance(value, torch.Tensor):
            given = self.call.builder.input_of(value)
            if given is not None and self.call.is_registered(given.original, given.source):
                if isinstance(given.original, torch.nn.Parameter):
                    self.refuse("a hook that holds a parameter of the model")
                # A buffer that a hook may change is an input of the graph, not a part of it.
                self.call.seen_written.add(given.source)
        elif kind in (VariableKind.LIST, VariableKind.DICT):
            self._check_items(contents(value))
        elif type(value) in (list, tuple, dict):
            self._check_items(value)
        elif kind is VariableKind.OBJECT and code is not None:
            uses = uses_of(code, variable)
            if uses is None:
                self.refuse(f"a hook that does more with {variable!r} than to read and set its attributes")
            for use in uses:
                self._check_use(value, use)
        else:
            self.refuse(
                f"a hook that holds a {type(value).__qualname__}, "
                "which cannot be followed in the backward pass"
            )

    def _check_items(self, items: Any) -> None:
        for item in items.values() if isinstance(items, dict) else items:
            self._check_value(item)

    def _check_use(self, proxy: Any, use: AttributeUse) -> None:
        """Check what a hook does with an object, attribute by attribute."""
        for place, name in enumerate(use.names):
            variable = self.call.side_effects[proxy]
            if variable.source is None or variable not in self.call.real:
                self.refuse(f"a hook that uses an object which the call has made, by {name!r}")
            source = Attribute(variable.source, name)
            if use.is_set and place == len(use.names) - 1:
                self._check_set(proxy, variable, source)
                return
            value = self._value_at(proxy, variable, source)
            if self._kind(value) is not VariableKind.OBJECT:
                return
            proxy = value
        self.refuse(f"a hook that does more with {use.names[-1]!r} than to read and set its attributes")

    def _value_at(self, proxy: Any, variable: Variable, source: Attribute) -> Any:
        """The value of an attribute that a hook reads, checked: a proxy if it is an object."""
        cls, name = real_class(proxy), source.name
        own = self.call.snapshot.attribute(self.call.real[variable], name)
        raw = static(cls.__mro__, name)
        if isinstance(raw, property) or (own is ABSENT and raw is not ABSENT):
            self.refuse(f"a hook that uses {cls.__qualname__}.{name}, which the class defines")
        value, pending = own, self.call.side_effects.pending(variable, name)
        if pending is not ABSENT:
            value = pending
        elif own is not ABSENT and (self._is_data(own) or not is_followed(own)):
            self._check_real(own, source)
            return None
        elif own is not ABSENT:
            value = self.call.wrap(own, source)
        if value is not ABSENT and value is not DELETED and self._kind(value) is not VariableKind.OBJECT:
            self._check_value(value)
        return value

    def _check_real(self, value: Any, source: Source) -> None:
        """Check a value other than an object, which the hook reads in place."""
        if isinstance(value, torch.nn.Parameter):
            self.refuse("a hook that reads a parameter of the model")
        if not self._is_data(value):
            self.refuse(
                f"a hook that reads a {type(value).__qualname__}, "
                "which cannot be followed in the backward pass"
            )
        if self.call.is_registered(value, source):
            self.call.seen_written.add(source)
        self._note(source, value)

    def _check_set(self, proxy: Any, variable: Variable, source: Attribute) -> None:
        """Refuse to set anything but an ordinary attribute; those are inputs of the graph from now on."""
        cls, real = real_class(proxy), self.call.real[variable]
        raw = static(cls.__mro__, source.name)
        held = [name for kind in REGISTERED for name in self.call.snapshot.registered(real, kind)]
        if cls.__setattr__ not in STANDARD_SETTERS or hasattr(type(raw), "__set__") or source.name in held:
            self.refuse(f"a hook that sets {cls.__qualname__}.{source.name}")
        self.call.seen_written.add(source)


def _as_value(function: str | Recipe) -> Constant | Recipe:
    return Constant(function) if isinstance(function, str) else function


# --- settled hooks

CHANGED = "is changed in place later"


def settle_hooks(call: CapturedCall) -> None:
    """Make the recipes of all hooks that a call registered."""
    effects = call.side_effects
    for number, hook in effects.tensor_hooks.items():
        effects.tensor_hooks[number] = _settled(call, hook)
    for number, put_on in enumerate(effects.backward_hooks):
        tensors = [tensor for tensor in (*put_on.inputs, *put_on.outputs) if tensor is not None]
        if tuple(tensor._version for tensor in tensors) != put_on.versions:
            raise error_at(f"a tensor that {CHANGED}", put_on.statement)
        hooks, pre_hooks = (
            tuple(recipe_of(call, hook, put_on.statement, put_on.module) for hook in hooks)
            for hooks in (put_on.hooks, put_on.pre_hooks)
        )
        effects.backward_hooks[number] = replace(put_on, hooks=hooks, pre_hooks=pre_hooks)
    effects.taken_off = [(_settled(call, hook), statement) for hook, statement in effects.taken_off]


def _settled(call: CapturedCall, hook: Hook) -> Hook:
    tensor: Any = hook.tensor
    if hook.version is not None and tensor._version != hook.version:
        raise error_at(f"a hook on a tensor that {CHANGED}", hook.statement)
    return replace(hook, function=recipe_of(call, hook.function, hook.statement))
