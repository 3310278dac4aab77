"""A method's effects as two functions: one reads the graph's inputs, one makes the changes.

Both are made once, from what :mod:`archive.effects.replay.computing` and :mod:`archive.effects.replay.steps`
have. The first checks guards on places and reads inputs; the second checks guards on the graph's outputs,
reads and computes everything, and makes the changes in sequence. If one fails, all are undone.

A record may ask for a few calls: ``print``, loggers and ``warnings.warn``; see ``known_calls``. Loggers and
warnings get the model's own line, so that what is shown, and which warnings are shown only once, is as in the
eager run.
"""

from __future__ import annotations

import builtins
import linecache
import logging
import re
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.errors import StateError
from archive.effects.looking import check_shown, condition, memory
from archive.effects.places import RemovableHandle, checked_data, items
from archive.effects.replay.changes import restore
from archive.effects.replay.classes import container_maker, real_literal
from archive.effects.replay.computing import NOTHING, Computing
from archive.effects.replay.errors import GuardError
from archive.effects.replay.steps import KEPT, SET_NEW_ATTRIBUTE, STEPS
from archive.formats.effects.containers import parameter
from archive.formats.effects.hooks import hooks_of
from archive.formats.effects.known_calls import LOG, PRINT, WARN
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Computed,
    Constant,
    Each,
    GlobalName,
    Item,
    Local,
    Look,
    Made,
    New,
    Op,
    Output,
    Temporary,
)
from archive.formats.effects.parts import is_under_argument, reads, root_of
from archive.formats.effects.source_text import EMPTY_LITERALS
from archive.formats.effects.words import ATTRIBUTE_OPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.effects.replay.changes import Backup
    from archive.effects.replay.classes import Allowed
    from archive.effects.replay.computing import Compute, Frame
    from archive.effects.replay.state import State
    from archive.formats.effects.model import Effect, Guard, MethodEffects, Source


# --- calls

WIDE = re.compile(r"(?<!%)(?:%%)*%(?:\([^()%]*\))?+[^%a-zA-Z]*(?:[0-9]{4}|\*|\()")
"""A field of a message: wider than 999 characters, of a width that an argument sets, or with an odd name."""


def _print(_: State, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    check_shown(*values)
    sep, end = settings
    print(*values, sep=sep, end=end)  # noqa: T201 (the model prints)


def _log(_: State, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    check_shown(*values)
    name, level, filename, line, function = settings
    if not name and not logging.root.handlers:
        logging.basicConfig()
    logger = logging.getLogger(name)
    if logger.isEnabledFor(level):
        message, *arguments = values
        if arguments and WIDE.search(str(message)):
            raise StateError("a message whose fields are more than 999 characters wide")
        record = logger.makeRecord(
            logger.name, level, filename, line, message, tuple(arguments), None, function
        )
        logger.handle(record)


def _warn(state: State, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    check_shown(*values)
    category, filename, line, module = settings
    shown = state.warned.setdefault(module, {})
    with _unread(filename):
        warnings.warn_explicit(values[0], getattr(builtins, category), filename, line, module, shown)


@contextmanager
def _unread(filename: str) -> Iterator[None]:
    """Keep ``warnings`` from reading a file to show its line, unless that is a loaded Python module's own.

    A record may name any file: one that never ends, a pipe, or one whose lines are private.
    """
    loaded = filename in linecache.cache or any(
        getattr(module, "__file__", None) == filename for module in list(sys.modules.values())
    )
    if loaded:
        yield
        return
    linecache.cache[filename] = (0, None, [], filename)
    try:
        yield
    finally:
        linecache.cache.pop(filename, None)


CALLERS: dict[GlobalName, Callable[[State, tuple[Any, ...], tuple[Any, ...]], None]] = {
    PRINT: _print,
    LOG: _log,
    WARN: _warn,
}
"""Functions that make a call: from the state, its settings and its values."""


# --- methods

OWN_CLASSES: dict[str, Callable[[], Any]] = dict(
    zip(EMPTY_LITERALS, (list, dict, lambda: object.__new__(RemovableHandle)), strict=True)
)
"""Classes that an effect ``new`` may make without permission."""


class PreparedChange(NamedTuple):
    """One change: its number, what is computed right before it, its backup if it has one, and its slots."""

    number: int
    late: tuple[tuple[int, Compute], ...]
    backup: Callable[[State, Any, Any, Any], Backup] | None
    change: Callable[[State, Any, Any, Any], object]
    target: int
    key: int
    value: int


class MethodCompiler:
    """Makes the functions of one method.

    Args:
        effects: a method's effects, checked.
        code: the classes and functions that they name, by ``module:qualname``; code of hooks by this and its
            digest.
        allowed: code that they may read in globals.
        failed: makes the error of an effect that failed, from its number and the exception.
        unlike: makes the error of a guard that does not hold, or that cannot be evaluated.
        shared: makes the error of two places that share memory, from the number of the effect that changes
            the first; None is what the graph holds.
        held: the tensors that the graph holds.
    """

    def __init__(
        self,
        effects: MethodEffects,
        code: Mapping[str | tuple[str, str], object],
        allowed: Allowed,
        failed: Callable[[int, BaseException], BaseException],
        unlike: Callable[..., BaseException],
        *,
        shared: Callable[[int, Source, Source | None], BaseException],
        held: Sequence[object],
    ) -> None:
        self._effects = effects
        self._code = code
        self._allowed = allowed
        self._failed = failed
        self._unlike = unlike
        self._shared = shared
        self._held = held
        self._defaults = {
            argument.name: value.value for argument, value in effects.defaults if isinstance(value, Constant)
        }

    def _computing(self) -> Computing:
        return Computing(self._defaults, self._allowed, self._code)

    # --- inputs ------------------------------------------------------------------------------------

    def inputs(self) -> Callable[[State, Mapping[str, object]], list[Any]]:
        """``inputs(state, arguments)``: checks the guards on places, and returns the graph's inputs."""
        body = self._computing()
        guards = self._guard_steps(body, At, Computed, Constant)
        body.at = -1
        given = [self._input(body, source) for source in self._effects.inputs]
        reading, unlike, failed = body.steps, self._unlike, self._failed
        check_apart = self._apart(given)

        def inputs(state: State, arguments: Mapping[str, object]) -> list[Any]:
            frame = body.frame(state, None, arguments)
            _run(guards, frame, unlike)
            _run(reading, frame, failed)
            check_apart(frame)
            return [frame[slot] for slot in given]

        return inputs

    def _apart(self, given: Sequence[int]) -> Callable[[Frame], None]:
        """A function that refuses tensors of state or graph that share memory with one that changes in place.

        A guard for each pair would be too many; those with arguments have guards.
        """
        changing = {
            effect.source: number
            for number, effect in enumerate(self._effects.effects)
            if effect.op is Op.COPY
        }
        pairs = zip(given, self._effects.inputs, strict=True)
        # Those that change come first.
        places = sorted(
            ((slot, source) for slot, source in pairs if not is_under_argument(source)),
            key=lambda place: place[1] not in changing,
        )
        if not changing:
            return lambda _: None
        shared, held = self._shared, self._held

        def check(frame: Frame) -> None:
            changed: dict[int, Source] = {}
            for slot, source in places:
                address = memory(frame[slot])
                if address and address in changed:
                    first = changed[address]
                    raise shared(changing[first], first, source)
                if source in changing:
                    changed[address] = source
            for address in map(memory, held):
                if address and address in changed:
                    first = changed[address]
                    raise shared(changing[first], first, None)

        return check

    def _input(self, body: Computing, source: Source) -> int:
        """The slot of an input of the graph: a list in place of a container whose class a guard checks."""
        slot = body.source(source)
        guards = (
            guard for guard in self._effects.guards if guard.look is Look.TYPE and guard.subject == At(source)
        )
        if any(isinstance(guard.value, Constant) and ":" in str(guard.value.value) for guard in guards):
            return body.compute(lambda frame: items(frame[slot]))
        return slot

    def _guard_steps(self, body: Computing, *subjects: type) -> list[tuple[int, int, Compute]]:
        """Steps that refuse a call in which a guard of such subjects does not hold."""
        for number, guard in enumerate(self._effects.guards):
            if isinstance(guard.subject, subjects):
                body.at = number
                body.compute(self._test(body, number, guard))
        steps, body.steps = body.steps, []
        return steps

    def _test(self, body: Computing, number: int, guard: Guard) -> Compute:
        """A function that raises an error unless a guard holds."""
        unlike = self._unlike
        each = guard.subject.source if isinstance(guard.subject, At) else None
        subject = body.listed(each.base) if isinstance(each, Each) else body.compared(guard.subject)
        literal = guard.value.value if isinstance(guard.value, Constant) else None
        key = guard.key.value if isinstance(guard.key, Constant) else None
        other = NOTHING if isinstance(guard.value, Constant) else body.compared(guard.value)
        holds = condition(guard.look, real_literal(literal), real_literal(key))

        def test(frame: Frame) -> None:
            if not holds(frame[subject], frame[other]):
                raise unlike(number, None, frame[subject])

        def test_each(frame: Frame) -> None:
            for item in frame[subject]:
                if not holds(item, frame[other]):
                    raise unlike(number, None, item)

        return test_each if isinstance(each, Each) else test

    # --- changes -----------------------------------------------------------------------------------

    def replay(self) -> Callable[[State, Sequence[object], Mapping[str, object]], Any]:
        """``replay(state, outputs, arguments)``: makes the changes, and returns the method's result."""
        checking = self._computing()
        guards = self._guard_steps(checking, Output)
        body = self._computing()
        changes, result = self._changes(body)
        steps, late = body.steps, body.take_late()
        unlike, failed, undone = self._unlike, self._failed, self._undone
        count = len(self._effects.effects)

        def replay(state: State, out: Sequence[object], arguments: Mapping[str, object]) -> Any:
            if guards:
                _run(guards, checking.frame(state, out, arguments), unlike)
            frame = body.frame(state, out, arguments)
            _run(steps, frame, failed)
            made: list[tuple[int, Backup]] = []
            number = -1
            try:
                for number, before, backup, change, target, key, value in changes:
                    for slot, compute in before:
                        frame[slot] = compute(frame)
                    place, named, given = frame[target], frame[key], frame[value]
                    if backup is not None:
                        made.append((number, backup(state, place, named, given)))
                    change(state, place, named, given)
                number = count
                for slot, compute in late:
                    frame[slot] = compute(frame)
            except BaseException as error:  # noqa: BLE001 (all is undone, whatever happens)
                raise undone(number, error, made)  # noqa: B904 (it has its cause)
            return frame[result]

        return replay

    def _changes(self, body: Computing) -> tuple[list[PreparedChange], int]:
        """The changes in their order, and the slot of the result; what they need is computed in ``body``."""
        numbered = list(enumerate(self._effects.effects))
        for number, effect in numbered:
            if effect.op is Op.NEW and isinstance(effect.source, Temporary):
                slot = body.temporary(effect.source.number)
                body.steps.append((number, slot, self._making(effect)))
        changes = []
        for number, effect in numbered:
            if effect.op is not Op.NEW:
                body.at = number
                changes.append(self._change(body, number, effect))
        body.at = -1
        return changes, body.value(self._effects.result)

    def _making(self, effect: Effect) -> Compute:
        """A function that makes a temporary, without calling its class."""
        assert isinstance(effect.key, Constant)  # noqa: S101 (checked)
        name = str(effect.key.value)
        if isinstance(effect.value, Made):
            make = container_maker(name, effect.value.kind, parameter(effect.value), self._allowed)
            return lambda _: make()
        if name in OWN_CLASSES:
            own = OWN_CLASSES[name]
            return lambda _: own()
        cls: Any = self._code[name]
        return lambda _: object.__new__(cls)

    def _change(self, body: Computing, number: int, effect: Effect) -> PreparedChange:
        target, key, value = self._target(body, effect), NOTHING, NOTHING
        if effect.op is Op.SET_GLOBAL and isinstance(effect.source, GlobalName):
            key = body.constant(effect.source.name)
        elif effect.op is Op.SET_BACKWARD and isinstance(effect.key, Constant):
            key = body.constant(self._code[str(effect.key.value)])
        elif effect.key is not None:
            key = body.hooks(effect.key) if hooks_of(effect) else body.value(effect.key)
        if effect.value is not None and effect.op is Op.COPY:
            earlier = self._effects.effects[:number]
            value = body.snapshot(
                effect.value, (copying.source for copying in earlier if copying.op is Op.COPY)
            )
        elif effect.value is not None:
            value = body.value(effect.value)
        step = STEPS[effect.op]
        if effect.op in KEPT and isinstance(effect.value, New):
            step = KEPT[effect.op]
        elif effect.op is Op.SET_ATTRIBUTE and isinstance(effect.source, Temporary):
            step = SET_NEW_ATTRIBUTE
        # A tensor's backup is expensive. The last effect needs none if nothing is read after it, as results
        # below temporaries are.
        needless = (
            effect.op is Op.COPY
            and number == len(self._effects.effects) - 1
            and not any(isinstance(root_of(source), Temporary) for source in reads(self._effects.result))
        )
        return PreparedChange(
            number, body.take_late(), None if needless else step.backup, step.change, target, key, value
        )

    def _target(self, body: Computing, effect: Effect) -> int:
        """The slot of what an effect changes: dict of globals, cell, or value at its source."""
        source, allowed = effect.source, self._allowed
        if effect.op is Op.CALL and isinstance(source, GlobalName):
            return body.constant(CALLERS[source])
        if effect.op is Op.SET_GLOBAL and isinstance(source, GlobalName):
            module, name = source.module, source.name
            return body.compute(lambda frame: frame[0].target(module, name, allowed))
        if effect.op is Op.SET_CELL and isinstance(source, ClosureCell):
            function, variable = source.function, source.name
            return body.compute(lambda frame: frame[0].cell_target(function, variable, allowed))
        if effect.op in ATTRIBUTE_OPS and isinstance(source, Attribute | Item | ClosureCell):
            return body.value(At(source))
        slot = body.source(source)
        if effect.op in ATTRIBUTE_OPS and isinstance(source, Local) and source.name != "self":
            return body.compute(lambda frame: checked_data(frame[slot]))
        return slot

    def _undone(self, number: int, error: BaseException, made: list[tuple[int, Backup]]) -> BaseException:
        """The error to raise, after undoing all effects up to and including the one that failed."""
        failures = []
        for which, backup in reversed(made):
            try:
                restore(backup)
            except Exception as failure:  # noqa: BLE001 (the others must be undone all the same)
                failures.append(f"effect {which} can't be undone: {type(failure).__name__}: {failure}")
        if not isinstance(error, Exception):
            return error
        failed = self._failed(number, error)
        failed.__cause__ = error
        for note in failures:
            failed.add_note(note)
        return failed


def _run(
    steps: list[tuple[int, int, Compute]], frame: Frame, failed: Callable[[int, BaseException], BaseException]
) -> None:
    number = -1
    try:
        for number, slot, compute in steps:  # noqa: B007 (the error names it)
            frame[slot] = compute(frame)
    except GuardError:
        raise
    except Exception as error:
        raise failed(number, error) from error
