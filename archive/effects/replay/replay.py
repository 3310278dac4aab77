"""Replay: a method's effects made after its graph has run, all of them or none.

First everything is read and every value is computed; then the changes are made in sequence. If one fails,
those made are undone, and the error names the effect and the model's line. Classes and functions that effects
name are looked up only if the caller allows them.

>>> from archive.formats.effects.model import Constant, Effect, Local, MethodEffects, Op, Output
>>> from archive.effects import State
>>> count = Effect(Op.SET_ATTRIBUTE, Local("self"), Constant("count"), Output(1))
>>> class Model: ...
>>> model = Model()
>>> method, state = MethodEffects("forward", (), Output(0), (count,)), State({"self": model})
>>> replay(method, state, ["result", 1], arguments={})
'result'
>>> model.count
1
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from archive.base.errors import ArchiveError
from archive.effects.errors import StateError
from archive.effects.looking import FOUND, SHOWN_TYPES
from archive.effects.replay.classes import real_literal, resolved
from archive.effects.replay.compiling import OWN_CLASSES, MethodCompiler
from archive.effects.replay.custom_backward import BackwardContext
from archive.effects.replay.errors import GuardError, ReplayError
from archive.effects.replay.hooks import allowed_code, hook_code
from archive.formats.effects.hooks import functions_of, hooks_of
from archive.formats.effects.model import Constant, Look, Op, Output
from archive.formats.effects.rules import MOST_SHOWN, check_method
from archive.formats.effects.source_text import CONTEXT, effect_text, guard_text, source_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive.effects.replay.classes import Allowed
    from archive.effects.replay.state import State
    from archive.formats.effects.model import Effect, Guard, MethodEffects, Source

    Symbolicate = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A method's effects, made ready; both functions raise :class:`ReplayError`.

    Attributes:
        inputs: ``inputs(state, arguments)`` checks the guards and returns the inputs of the graph; arguments
            are the method's, by name.
        replay: ``replay(state, outputs, arguments)`` makes the changes and returns the method's result.
        guards_results: whether some guards look at what the graph gives; ``replay`` checks these.
    """

    inputs: Callable[[State, Mapping[str, object]], list[Any]]
    replay: Callable[[State, Sequence[object], Mapping[str, object]], Any]
    guards_results: bool


def prepared(
    effects: MethodEffects,
    allow: Allowed = (),
    symbolicate: Symbolicate | None = None,
    held: Sequence[object] = (),
) -> Prepared:
    """Check and compile a method's effects.

    Args:
        allow: classes and functions that they may name, as ``module:qualname``; or a mapping from such names
            to the objects to use. Python's containers need no permission; classes of the model that derive
            from them, and named tuples, have stand-ins unless they are allowed.
        symbolicate: explains a debug handle, as ``Archive.symbolicate`` does; errors contain ``str()`` of it.
        held: the tensors that the graph holds itself: what changes in place must share no memory with them.
    """
    if isinstance(allow, str):
        raise TypeError("allow: expected names, found one text")
    failed = _Errors(effects, symbolicate)
    try:
        check_method(effects)
    except ArchiveError as error:
        raise ReplayError(str(error), method=effects.method) from error
    code = _named_code(effects, allow, failed)
    try:
        made = MethodCompiler(effects, code, allow, failed, failed.unlike, shared=failed.shared, held=held)
        guards_results = any(isinstance(guard.subject, Output) for guard in effects.guards)
        return Prepared(made.inputs(), made.replay(), guards_results)
    except (StateError, ImportError, AttributeError, ValueError) as error:
        raise failed(-1, error) from error


def replay(
    effects: MethodEffects,
    state: State,
    outputs: Sequence[object],
    *,
    arguments: Mapping[str, object],
    allow: Allowed = (),
    symbolicate: Symbolicate | None = None,
) -> Any:
    """Make a method's changes once; :func:`prepared` compiles them for many calls.

    Args:
        effects: of the method.
        state: the state to change.
        outputs: the values that the graph returned.
        arguments: the method's, by name, without ``self``.
        allow: see :func:`prepared`.
        symbolicate: see :func:`prepared`.

    Returns:
        The method's result.

    Raises:
        ReplayError: an effect is refused or failed; the state is as before.
    """
    return prepared(effects, allow, symbolicate).replay(state, outputs, arguments)


def inputs(effects: MethodEffects, state: State, arguments: Mapping[str, object]) -> list[Any]:
    """The inputs of a method's graph, read from state and arguments.

    Args:
        effects: of the method.
        state: the state to read.
        arguments: the method's, by name, without ``self``.

    Raises:
        GuardError: the call differs from the captured one in something that the model relied on.
        ReplayError: the state has nothing at a source.
    """
    copies = tuple(effect for effect in effects.effects if effect.op is Op.COPY)
    only = replace(effects, result=Constant(None), effects=copies)
    return prepared(only).inputs(state, arguments)


class _Errors:
    """Makes the errors of one method; calling it makes that of a failed effect."""

    def __init__(self, effects: MethodEffects, symbolicate: Symbolicate | None) -> None:
        self._effects = effects
        self._symbolicate = symbolicate

    def __call__(self, number: int, error: BaseException) -> ReplayError:
        problem = str(error) if isinstance(error, StateError) else f"{type(error).__name__}: {error}"
        if not 0 <= number < len(self._effects.effects):
            return ReplayError(problem, method=self._effects.method)
        effect = self._effects.effects[number]
        return ReplayError(
            problem, method=self._effects.method, effect=effect_text(effect), where=self._where(effect)
        )

    def unlike(self, number: int, error: BaseException | None, subject: object = None) -> GuardError:
        """The error for a guard that does not hold for a subject, or that could not be evaluated."""
        if isinstance(error, GuardError):
            return error
        guard = self._effects.guards[number]
        key = real_literal(guard.key.value) if isinstance(guard.key, Constant) else None
        if error is None and guard.look in FOUND:
            problem = f"found {_found(guard.look, subject, key)}"
        elif error is None:
            problem = "which is not so"
        else:
            problem = f"which is unknown: {error if isinstance(error, StateError) else repr(error)}"
        return GuardError(
            problem,
            method=self._effects.method,
            number=number,
            texts=lambda: (guard_text(guard), self._where(guard)),
        )

    def shared(self, number: int, changed: Source, other: Source | None) -> GuardError:
        """The error for two places that share memory, the first of which an effect changes.

        The other one is of the state, or None for a tensor that the graph holds.
        """
        effect = self._effects.effects[number]
        text = "what the graph holds" if other is None else source_text(other)
        return GuardError(
            "which is not so",
            method=self._effects.method,
            number=len(self._effects.guards),
            texts=lambda: (f"apart({source_text(changed)}, {text})", self._where(effect)),
        )

    def _where(self, effect: Effect | Guard) -> str:
        if self._symbolicate is None or effect.handle < 0:
            return ""
        try:
            return str(self._symbolicate(effect.handle))
        except ArchiveError as error:
            return f"debug handle {effect.handle}: {error}"


def _found(look: Look, subject: object, key: object) -> str:
    """The subject's own value, as text for a message."""
    seen = FOUND[look](subject, key)
    text = _shown(seen) if look in (Look.EQUAL, Look.RANGE, Look.TEXT, Look.KEYS) else str(seen)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _shown(value: Any) -> str:
    """A value as text: tensors without elements, containers by their length, other objects by their class."""
    if isinstance(value, torch.Tensor):
        return "a tensor"
    kind = type(value)
    if kind in SHOWN_TYPES:
        return repr(value)
    if kind is tuple and len(value) <= MOST_SHOWN:
        items = ", ".join(map(_shown, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    length = f" of {len(value)}" if kind in (dict, list, tuple) else ""
    return f"a {kind.__name__}{length}"


def _named_code(
    effects: MethodEffects, allow: Allowed, failed: _Errors
) -> dict[str | tuple[str, str], object]:
    """Classes and functions that effects name, by name; code of hooks by name and digest."""
    code: dict[str | tuple[str, str], object] = {}
    for number, effect in enumerate(effects.effects):
        try:
            for name, digest in (pair for hook in hooks_of(effect) for pair in functions_of(hook)):
                if digest:
                    code[name, digest] = hook_code(name, digest, allow)
                else:
                    code[name] = allowed_code(name, allow)
            # Containers of classes that are not allowed have stand-ins.
            is_class = effect.op is Op.NEW and effect.value is None
            if (is_class or effect.op is Op.SET_BACKWARD) and isinstance(effect.key, Constant):
                name = str(effect.key.value)
                if effect.op is Op.NEW and name == CONTEXT:
                    code[name] = BackwardContext
                elif name not in OWN_CLASSES:
                    code[name] = resolved(name, allow)
        except Exception as error:
            raise failed(number, error) from error
    return code
