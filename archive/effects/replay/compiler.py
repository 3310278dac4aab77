"""A method's effects as two Python functions: one reads the graph's inputs, one makes the changes.

Both are compiled once from generated text::

    def replay(state, out, arguments):
        at = -1
        try:
            at = 0                                   # number of the effect that is prepared
            s0 = state.roots['self']                 # its target
            v0 = out[2]                              # its value
            r = out[0]
        except Exception as error:
            raise failed(at, error) from error
        try:
            at = 0                                   # number of the effect that is made
            u0 = backup_attribute(s0, k4, v0)        # its backup
            s0.count = v0
        except BaseException as error:
            raise undone(at, error, locals())
        return r

See :mod:`archive.effects.replay.expressions` for the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.looking import GUARD_HELPERS, holds
from archive.effects.replay.calls import CALLS
from archive.effects.replay.container_classes import BASE_CLASSES, container_maker
from archive.effects.replay.expressions import Expressions, FunctionNames, cloned_if_changed
from archive.effects.replay.named_values import NAMED
from archive.effects.replay.steps import KEPT, SET_NEW_ATTRIBUTE, STEP_NAMES, STEPS, UndoEntry, undo_until
from archive.formats.effects.containers import head
from archive.formats.effects.hooks import hooks_of
from archive.formats.effects.model import (
    At,
    ClosureCell,
    Computed,
    Constant,
    Each,
    GlobalName,
    Look,
    Made,
    New,
    Op,
    Output,
    Temporary,
)
from archive.formats.effects.parts import reads, root_of
from archive.formats.effects.source_text import EMPTY_LITERALS, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.effects.replay.code_names import Allowed
    from archive.formats.effects.model import Effect, Guard, MethodEffects, Source


class Compiler:
    """Compiles the functions of one method.

    Args:
        effects: a method's effects, checked.
        code: the classes and functions that they name, by ``module:qualname``; code of hooks by this and its
            digest.
        allowed: what they may read of code in globals.
        failed: makes the error of an effect that failed, from its number and the exception.
        unlike: makes the error of a guard that does not hold, or that cannot be evaluated.
    """

    def __init__(
        self,
        effects: MethodEffects,
        code: Mapping[str | tuple[str, str], object],
        allowed: Allowed,
        failed: Callable[[int, BaseException], BaseException],
        unlike: Callable[..., BaseException],
    ) -> None:
        self._effects = effects
        self._code = code
        self._allowed = allowed
        self._failed = failed
        self._undo: dict[int, UndoEntry] = {}
        functions = {
            "size": torch.Size,
            "inference": inference,
            **BASE_CLASSES,
            **NAMED,
            "unlike": unlike,
            "allowed": allowed,
            "cloned_if_changed": cloned_if_changed,
            "failed": failed,
            "undone": self._undone,
        }
        self._names = FunctionNames(STEP_NAMES | GUARD_HELPERS | functions, self._defaults(), allowed)

    def _defaults(self) -> dict[str, Any]:
        return {
            argument.name: value.value
            for argument, value in self._effects.defaults
            if isinstance(value, Constant)
        }

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """``inputs(state, arguments)`` and ``replay(state, outputs, arguments)``."""
        text = "\n".join([*self._inputs_text(), *self._replay_text()])
        space = dict(self._names.globals)
        exec(compile(text, f"<effects of {self._effects.method!r}>", "exec"), space)  # noqa: S102 (our own text)
        return space["inputs"], space["replay"]

    def _inputs_text(self) -> list[str]:
        """Lines of ``inputs``: guards of places, then the graph's inputs."""
        body = Expressions(self._names)
        guards = self._guard_lines(body, At, Computed, Constant)
        given = ", ".join(self._input_text(body, source) for source in self._effects.inputs)
        lines = [*body.take_lines(), f"return [{given}]"]
        return ["def inputs(state, arguments):", *guards, *_trying(lines, "failed(-1, error)")]

    def _input_text(self, body: Expressions, source: Source) -> str:
        """An input of the graph: a list for a container of another class, which a guard says."""
        guards = (one for one in self._effects.guards if one.look is Look.TYPE and one.subject == At(source))
        is_list = any(isinstance(one.value, Constant) and ":" in str(one.value.value) for one in guards)
        return f"list({body.source(source)})" if is_list else body.source(source)

    def _replay_text(self) -> list[str]:
        """Lines of ``replay``: guards of the graph's outputs, everything read and computed, all changes."""
        guards = self._guard_lines(Expressions(self._names), Output)
        body = Expressions(self._names)
        changes = self._change_lines(body)
        return [
            "def replay(state, out, arguments):",
            *guards,
            "    at = -1",
            *_trying(body.take_lines(), "failed(at, error)"),
            "    try:",
            "        pass",
            *_indented(changes),
            "    except BaseException as error:",
            "        raise undone(at, error, locals())",
            "    return r",
        ]

    def _guard_lines(self, body: Expressions, *subjects: type) -> list[str]:
        """Lines that refuse a call in which a guard of such subjects does not hold."""
        for number, guard in enumerate(self._effects.guards):
            if isinstance(guard.subject, subjects):
                body.add(f"at = {number}")
                body.add(*_guard_lines(body, guard))
        lines = body.take_lines()
        return ["    at = -1", *_trying(lines, "unlike(at, error)")] if lines else []

    def _change_lines(self, body: Expressions) -> list[str]:
        """Lines that make the changes, in their order; what they need is read and computed in ``body``."""
        numbered = list(enumerate(self._effects.effects))
        for number, effect in numbered:
            if effect.op is Op.NEW:
                body.add(f"at = {number}", self._new_line(effect))
        changes = []
        for number, effect in numbered:
            if effect.op is not Op.NEW:
                body.add(f"at = {number}")
                changes += [f"at = {number}", *self._step_lines(body, number, effect)]
        body.add("at = -1")
        result = f"r = {body.value(self._effects.result)}"
        late = body.take_late()
        if late:
            return [*changes, f"at = {len(numbered)}", *late, result]
        body.add(result)
        return changes

    def _new_line(self, effect: Effect) -> str:
        """The line that makes a temporary, without calling its class."""
        assert isinstance(effect.source, Temporary)  # noqa: S101 (checked)
        assert isinstance(effect.key, Constant)  # noqa: S101 (checked)
        name = str(effect.key.value)
        if isinstance(effect.value, Made):
            maker = container_maker(name, effect.value.kind, head(effect.value), self._allowed)
            return f"t{effect.source.number} = {self._names.constant(maker)}()"
        made = EMPTY_LITERALS.get(name) or f"object.__new__({self._names.constant(self._code[name])})"
        return f"t{effect.source.number} = {made}"

    def _step_lines(self, body: Expressions, number: int, effect: Effect) -> list[str]:
        """Late reads, backup and change of one effect."""
        parts = self._parts(body, number, effect)
        plain: set[type] = set()
        parts["plain"] = self._names.constant(plain)
        self._undo[number] = UndoEntry(effect.op, parts["target"], parts["name"] or parts["key"], plain)
        step = KEPT[effect.op] if effect.op in KEPT and isinstance(effect.value, New) else STEPS[effect.op]
        backup = [f"u{number} = {step.backup.format(**parts)}"]
        if effect.op is Op.COPY and self._is_last(number):
            backup = []  # a tensor's backup is dear, and nothing can fail after this
        name = str(effect.key.value) if isinstance(effect.key, Constant) else ""
        change = step.change.format(**parts)
        if effect.op is Op.SET_ATTRIBUTE and isinstance(effect.source, Temporary):
            change = SET_NEW_ATTRIBUTE.format(**parts)
        elif effect.op is Op.SET_ATTRIBUTE and is_name(name):
            target, plain_types = parts["target"], parts["plain"]
            change = f"{target}.{name} = {parts['value']}"
            lines = [
                f"if type({target}) in {plain_types}: {change}",
                f"else: {STEPS[effect.op].change.format(**parts)}",
            ]
            return [*body.take_late(), *backup, *lines]
        return [*body.take_late(), *backup, change]

    def _is_last(self, number: int) -> bool:
        """Whether nothing is changed or read after an effect; results below temporaries are."""
        late = any(isinstance(root_of(source), Temporary) for source in reads(self._effects.result))
        return number == len(self._effects.effects) - 1 and not late

    def _parts(self, body: Expressions, number: int, effect: Effect) -> dict[str, str]:
        """The texts that a step is formatted with; :class:`EffectStep` lists them."""
        parts = {"target": self._target(body, effect), "key": "", "value": "", "name": "", "code": ""}
        if effect.key is not None:
            hooks = hooks_of(effect)
            parts["key"] = body.hooks(effect.key, self._code) if hooks else body.value(effect.key)
        if effect.value is not None and effect.op is Op.COPY:
            earlier = self._effects.effects[:number]
            parts["value"] = body.snapshot(effect.value, (one.source for one in earlier if one.op is Op.COPY))
        elif effect.value is not None:
            parts["value"] = body.value(effect.value)
        parts["comma"] = ", " if parts["key"] else ""
        if effect.op is Op.SET_GLOBAL and isinstance(effect.source, GlobalName):
            parts["name"] = self._names.constant(effect.source.name)
        if effect.op is Op.SET_BACKWARD and isinstance(effect.key, Constant):
            parts["code"] = self._names.constant(self._code[str(effect.key.value)])
        if effect.op is Op.CALL and isinstance(effect.source, GlobalName):
            parts["code"] = self._names.constant(CALLS[effect.source])
        return parts

    def _target(self, body: Expressions, effect: Effect) -> str:
        """A name for the object that an effect changes: dict of globals, cell, or value at its source."""
        source, constant = effect.source, self._names.constant
        if effect.op is Op.CALL:
            return "state"
        if effect.op is Op.SET_GLOBAL and isinstance(source, GlobalName):
            return body.bind(f"state.target({constant(source.module)}, {constant(source.name)}, allowed)")
        if effect.op is Op.SET_CELL and isinstance(source, ClosureCell):
            return body.bind(f"state.cell({constant(source.function)}, {constant(source.name)})")
        return body.source(source)

    def _undone(self, at: int, error: BaseException, variables: Mapping[str, Any]) -> BaseException:
        """The error to raise, after undoing all effects up to and including the one that failed."""
        failures = undo_until(at, self._undo, variables, self._names.globals)
        if not isinstance(error, Exception):
            return error
        failure = self._failed(at, error)
        failure.__cause__ = error
        for note in failures:
            failure.add_note(note)
        return failure


def inference(tensor: Any) -> Any:  # noqa: ANN401
    """A copy of a tensor, as if it were made in inference mode."""
    with torch.inference_mode():
        return tensor.clone()


def _guard_lines(body: Expressions, guard: Guard) -> list[str]:
    """Lines that refuse a call in which a guard does not hold."""
    each = guard.subject.source if isinstance(guard.subject, At) else None
    if isinstance(each, Each):
        items = body.compared(At(each.base))
        return [f"for item in {items}:", f"    {_refusing(body, guard, 'item')}"]
    return [_refusing(body, guard, body.compared(guard.subject))]


def _refusing(body: Expressions, guard: Guard, subject: str) -> str:
    """A statement that raises an error unless a guard holds for a subject."""
    value = body.compared(guard.value)
    key = "None" if guard.key is None else body.compared(guard.key)
    literal = guard.value.value if isinstance(guard.value, Constant) else guard.value
    condition = holds(guard.look, literal).format(subject, value, key)
    return f"if not ({condition}): raise unlike(at, None, {subject})"


def _indented(lines: list[str]) -> list[str]:
    return [f"        {line}" for line in lines]


def _trying(lines: list[str], failure: str) -> list[str]:
    """Lines in a ``try`` statement that raises ``failure`` from any exception."""
    return [
        "    try:",
        *_indented(lines),
        "    except Exception as error:",
        f"        raise {failure} from error",
    ]
