"""A method's effects as two Python functions: what the graph takes, and what is done after it.

The functions are compiled once from text. All that the text has from a table are numbers of places and names
of attributes that Python's syntax takes as such; everything else is handed over beside it::

    def replay(state, out, arguments):
        at = -1
        try:
            at = 0                                   # the effect that is prepared
            s0 = state.roots['self']                 # what it changes, and the values
            v0 = out[2]
            r = out[0]
        except Exception as error:
            raise failed(at, error) from error
        try:
            at = 0                                   # the effect that is done
            u0 = keep_attribute(s0, k4, v0)          # what undoes it
            s0.count = v0
        except BaseException as error:
            raise undone(at, error, locals())
        return r
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.looking import HELPERS as LOOKING
from archive.effects.looking import holds
from archive.effects.replay import undo
from archive.effects.replay.state import ABSENT, StateError
from archive.effects.replay.steps import DO, HELPERS, KEEP, UNDO, apart
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    GlobalName,
    Item,
    Local,
    Made,
    New,
    Op,
    Output,
    Temporary,
)
from archive.formats.effects.parts import root_of
from archive.formats.effects.rows import Numbering
from archive.formats.effects.source_text import EMPTY, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.formats.effects.model import Effect, Guard, MethodEffects, Source, Value


class Compiling:
    """The functions in the making.

    Args:
        effects: a method's effects, checked.
        code: the classes and functions that they name.
        allowed: what else of code they may touch.
        failed: makes the error of an effect that couldn't be done.
        unlike: makes the error of a guard that doesn't hold, or of one that couldn't be told.
    """

    def __init__(
        self,
        effects: MethodEffects,
        code: Mapping[str, object],
        allowed: object,
        failed: Callable[[int, BaseException], BaseException],
        unlike: Callable[..., BaseException],
    ) -> None:
        self._effects = effects
        self._code = code
        self._defaults = {
            argument.name: value.value for argument, value in effects.defaults if isinstance(value, Constant)
        }
        self._names: dict[str, Any] = (
            HELPERS
            | LOOKING
            | {
                "size": torch.Size,
                "unlike": unlike,
                "ABSENT": ABSENT,
                "allowed": allowed,
                "apart": apart,
                "failed": failed,
                "undone": self._undone,
            }
        )
        self._failed = failed
        self._numbering = Numbering()
        self._lines: list[str] = []
        self._late: list[str] = []  # what is read of temporaries, when it has been put there
        self._read: set[str] = set()
        self._undo: dict[int, tuple[Op, str, str, set[type]]] = {}  # names of target and key, known classes

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """``inputs(state, arguments)`` and ``replay(state, outputs, arguments)``."""
        text = "\n".join([*self._checked_inputs(), *self._replay()])
        space = dict(self._names)
        exec(compile(text, f"<effects of {self._effects.method!r}>", "exec"), space)  # noqa: S102 (our own text)
        return space["inputs"], space["replay"]

    def _checked_inputs(self) -> list[str]:
        """The text of the one."""
        self._begin()
        guards = self._guards(At, Constant)
        self._lines = []
        given = ", ".join(self._source(source) for source in self._effects.inputs)
        return [
            "def inputs(state, arguments):",
            *guards,
            "    try:",
            *self._lines,
            f"        return [{given}]",
            "    except Exception as error:",
            "        raise failed(-1, error) from error",
        ]

    def _guards(self, *subjects: type) -> list[str]:
        """Lines that refuse a call in which a guard of such subjects does not hold."""
        for number, guard in enumerate(self._effects.guards):
            if isinstance(guard.subject, subjects):
                self._add(f"at = {number}")
                self._add(self._guard(guard))
        if not self._lines:
            return []
        return [
            "    at = -1",
            "    try:",
            *self._lines,
            "    except Exception as error:",
            "        raise unlike(at, error) from error",
        ]

    def _guard(self, guard: Guard) -> str:
        subject = self._seen(guard.subject)
        value = self._seen(guard.value)
        key = "None" if guard.key is None else self._seen(guard.key)
        literal = guard.value.value if isinstance(guard.value, Constant) else guard.value
        told = holds(guard.look, literal).format(subject, value, key)
        return f"if not ({told}): raise unlike(at, None, {subject})"

    def _seen(self, value: Value) -> str:
        """The name of what a guard looks at; that of Python modules is read as it is, and only compared."""
        if not isinstance(value, At) or not isinstance(root_of(value.source), GlobalName):
            return self._value(value)
        return self._compared(value.source)

    def _compared(self, source: Source) -> str:
        match source:
            case Attribute(base, name):
                return f"getattr({self._compared(base)}, {self._handed(name)})"
            case Item(base, key):
                return f"{self._compared(base)}[{self._handed(key)}]"
            case GlobalName(module, name):
                return f"state.names({self._handed(module)})[{self._handed(name)}]"
        raise StateError("no place that can be read")

    def _replay(self) -> list[str]:
        """The text of the other."""
        self._begin()
        guards = self._guards(Output)
        self._begin()
        effects = list(enumerate(self._effects.effects))
        for number, effect in effects:
            if effect.op is Op.NEW:
                self._add(f"at = {number}", self._made(effect))
        done = []
        for number, effect in effects:
            if effect.op is not Op.NEW:
                keep, do = self._step(number, effect)
                kept = [f"u{number} = {keep}"] if keep else []
                done += [f"at = {number}", *self._late, *kept, do]
                self._late = []
        self._add("at = -1")
        result = f"r = {self._value(self._effects.result)}"
        if self._late:
            done += [f"at = {len(effects)}", *self._late, result]
        else:
            self._add(result)
        before = self._lines
        self._begin()
        self._add(*done)
        return [
            "def replay(state, out, arguments):",
            *guards,
            "    at = -1",
            "    try:",
            *before,
            "    except Exception as error:",
            "        raise failed(at, error) from error",
            "    try:",
            "        pass",
            *self._lines,
            "    except BaseException as error:",
            "        raise undone(at, error, locals())",
            "    return r",
        ]

    def _begin(self) -> None:
        self._lines, self._late, self._read = [], [], set()

    def _add(self, *lines: str) -> None:
        self._lines += [f"        {line}" for line in lines]

    def _handed(self, value: object) -> str:
        """A name for something that isn't in the text."""
        name = f"k{len(self._names)}"
        self._names[name] = value
        return name

    def _made(self, effect: Effect) -> str:
        """The making of a temporary."""
        assert isinstance(effect.source, Temporary)  # noqa: S101 (checked)
        assert isinstance(effect.key, Constant)  # noqa: S101 (checked)
        name = str(effect.key.value)
        made = EMPTY.get(name) or f"object.__new__({self._handed(self._code[name])})"
        return f"t{effect.source.number} = {made}"

    def _step(self, number: int, effect: Effect) -> tuple[str, str]:
        """How an effect is kept and done; what it needs is read before."""
        self._add(f"at = {number}")
        parts = {"target": self._target(effect), "key": "", "value": "", "name": "", "code": ""}
        if effect.key is not None:
            parts["key"] = self._value(effect.key)
        if effect.value is not None:
            parts["value"] = self._before(number, effect)
        parts["comma"] = ", " if parts["key"] else ""
        if effect.op is Op.SET_GLOBAL and isinstance(effect.source, GlobalName):
            parts["name"] = self._handed(effect.source.name)
        if effect.op is Op.REGISTER_HOOK and isinstance(effect.key, Constant):
            parts["code"] = self._handed(self._code[str(effect.key.value)])
        known: set[type] = set()
        parts["known"] = self._handed(known)
        self._undo[number] = effect.op, parts["target"], parts["name"] or parts["key"], known
        keep = KEEP[effect.op].format(**parts)
        if effect.op is Op.COPY and number == len(self._effects.effects) - 1:
            keep = ""  # nothing can fail behind it
        name = str(effect.key.value) if isinstance(effect.key, Constant) else ""
        if effect.op is Op.SET_ATTRIBUTE and is_name(name):
            return keep, f"{parts['target']}.{name} = {parts['value']}"
        return keep, DO[effect.op].format(**parts)

    def _target(self, effect: Effect) -> str:
        """What an effect is done to."""
        source = effect.source
        if effect.op is Op.SET_GLOBAL and isinstance(source, GlobalName):
            module, name = self._handed(source.module), self._handed(source.name)
            return self._noted(f"state.target({module}, {name}, allowed)")
        if effect.op is Op.SET_CELL and isinstance(source, ClosureCell):
            return self._noted(f"state.cell({self._handed(source.function)}, {self._handed(source.name)})")
        return self._source(source)

    def _noted(self, expression: str, *, late: bool = False) -> str:
        """A name for the value of an expression: from before the first change, or as late as it can be."""
        if late:
            name = f"w{len(self._late)}"
            self._late.append(f"{name} = {expression}")
            return name
        name = f"v{len(self._lines)}"
        self._add(f"{name} = {expression}")
        return name

    def _before(self, number: int, effect: Effect) -> str:
        """The value of an effect, as it is before any."""
        value = effect.value
        assert value is not None  # noqa: S101 (the caller looked)
        some = len(self._late)
        text = self._value(value)
        late = len(self._late) > some
        if effect.op is not Op.COPY:
            return text
        copied = [one for one in self._effects.effects[:number] if one.op is Op.COPY]
        if not copied:
            return text
        if isinstance(value, At):
            return self._noted(f"{text}.clone()", late=late)
        changed = ", ".join(self._source(one.source) for one in copied)
        return self._noted(f"apart({text}, ({changed},))", late=len(self._late) > some)

    def _value(self, value: Value) -> str:
        """The name of a value, computed."""
        match value:
            case Constant(literal):
                return self._handed(literal)
            case At(source):
                return self._source(source)
            case New(number):
                return f"t{number}"
        some = len(self._late)
        expression = self._expression(value)
        return self._noted(expression, late=len(self._late) > some)

    def _expression(self, value: Value) -> str:
        """A value as an expression."""
        if isinstance(value, Output):
            return f"out[{value.index}]"
        if not isinstance(value, Made):
            return self._value(value)
        items = [self._expression(item) for item in value.items]
        if value.kind == "list":
            return f"[{', '.join(items)}]"
        if value.kind in ("tuple", "size"):
            made = f"({''.join(f'{item}, ' for item in items)})"
            return made if value.kind == "tuple" else f"size({made})"
        pairs = zip(items[::2], items[1::2], strict=True)
        return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"

    def _source(self, source: Source) -> str:
        """The name of what lives somewhere, read."""
        if isinstance(source, Temporary):
            return f"t{source.number}"
        if isinstance(root_of(source), Temporary):
            return self._noted(self._place(source), late=True)
        name = f"s{self._numbering.source(source)}"
        if name not in self._read:
            expression = self._place(source)
            self._read.add(name)
            self._add(f"{name} = {expression}")
        return name

    def _place(self, source: Source) -> str:  # noqa: PLR0911 (one a kind)
        match source:
            case Attribute(base, name):
                holder = self._source(base)
                return f"{holder}.{name}" if is_name(name) else f"getattr({holder}, {self._handed(name)})"
            case Item(base, key):
                return f"{self._source(base)}[{self._handed(key)}]"
            case GlobalName(module, name):
                return f"state.global_({self._handed(module)}, {self._handed(name)}, allowed)"
            case ClosureCell(function, name):
                return f"state.cell({self._handed(function)}, {self._handed(name)}).cell_contents"
            case Local("self"):
                return "state.roots['self']"
            case Local(name) if name in self._defaults:
                return f"arguments.get({self._handed(name)}, {self._handed(self._defaults[name])})"
            case Local(name):
                return f"state.argument(arguments, {self._handed(name)})"
        raise StateError("no place that can be read")

    def _undone(self, at: int, error: BaseException, names: Mapping[str, Any]) -> BaseException:
        """Undo effects up to and with one that failed; the error to raise."""
        failures = []
        for number in range(at, -1, -1):
            kept = names.get(f"u{number}", ABSENT)
            if kept is ABSENT and f"u{number}" not in names:
                continue
            op, target, key, known = self._undo[number]
            try:
                if op in UNDO:
                    UNDO[op](names[target], names.get(key, self._names.get(key)), kept, known)
                else:
                    undo.put_back(kept)
            except Exception as failure:  # noqa: BLE001 (the others must be undone all the same)
                failures.append(f"effect {number} can't be undone: {type(failure).__name__}: {failure}")
        if not isinstance(error, Exception):
            return error
        said = self._failed(at, error)
        said.__cause__ = error
        for note in failures:
            said.add_note(note)
        return said
