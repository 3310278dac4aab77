"""Effects as Python: the text of each fact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    Effect,
    GlobalName,
    Guard,
    Item,
    Local,
    Look,
    Made,
    MethodEffects,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)
from archive.formats.effects.parts import guarded, output_count
from archive.formats.effects.source_text import effect_text, guard_text, notes_of, source_text, value_text
from tests.effects.programs import (
    CELL,
    SELF,
    X,
    at,
)
from tests.support import effect_tables
from tests.support.effect_tables import COUNTING
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from archive.formats.effects.model import EffectTable, Source, Value


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (at("self.history[-1]"), "self.history[-1]"),
        (at("tests.models:COUNT"), "tests.models.COUNT"),
        (ClosureCell("m:f.<locals>.g", "count"), "count"),
        (at("self.cache[it's]"), 'self.cache["it\'s"]'),
        (Item(X, (1, (None,), b"\0")), "x[(1, (None,), b'\\x00')]"),
        (Item(X, ()), "x[()]"),
        (Attribute(SELF, "block-1"), "getattr(self, 'block-1')"),
        (Attribute(SELF, "class"), "getattr(self, 'class')"),
        (Attribute(SELF, "__debug__"), "getattr(self, '__debug__')"),
        (Attribute(SELF, "ﬁ"), "getattr(self, 'ﬁ')"),
        (Attribute(SELF, "größe"), "self.größe"),
        (GlobalName("my-app", "COUNT"), "modules['my-app'].COUNT"),
        (GlobalName("", "COUNT"), "modules[''].COUNT"),
        (Local("x\nimport os"), "arguments['x\\nimport os']"),
        (ClosureCell("f", "a b"), "cells['a b']"),
        (Attribute(Temporary(3), "a"), "tmp3.a"),
    ],
)
def test_a_source_reads_as_python(source: Source, text: str) -> None:
    assert source_text(source) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Output(0), "out[0]"),
        (New(1), "tmp1"),
        (Stored(2), "tensors[2]"),
        (At(at("self.a")), "self.a"),
        (Constant(float("inf")), "float('inf')"),
        (Constant((float("nan"), -0.0)), "(float('nan'), -0.0)"),
        (Constant(1 << 20_000), hex(1 << 20_000)),
        (Constant("\ud800\n"), "'\\ud800\\n'"),
        (Made("list", (Output(0), Made("tuple", ()))), "[out[0], ()]"),
        (Made("tuple", (Output(0),)), "(out[0],)"),
        (Made("dict", (Constant("a"), Output(0))), "{'a': out[0]}"),
    ],
)
def test_a_value_reads_as_python(value: Value, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("guard", "text"),
    [
        (Guard(Look.EQUAL, At(X), Constant(None)), "x is None"),
        (Guard(Look.EQUAL, At(X), Constant(True)), "x is True"),  # noqa: FBT003 (a literal)
        (Guard(Look.EQUAL, At(X), Constant(3)), "x == 3"),
        (Guard(Look.TEXT, At(X), Constant("a")), "str(x) == 'a'"),
        (Guard(Look.TYPE, At(X), Constant("tensor")), "isinstance(x, torch.Tensor)"),
        (Guard(Look.TYPE, At(X), Constant("a.b:C.D")), "type(x) is C.D"),
        (Guard(Look.TYPE, At(X), Constant("a b")), "type(x) is 'a b'"),
        (Guard(Look.RANGE, At(X), Constant(1 << 24)), "-2**24 <= x <= 2**24"),
        (Guard(Look.RANGE, At(X), Constant(1)), "-2**0 <= x <= 2**0"),
        (Guard(Look.RANGE, At(X), Constant(5)), "-5 <= x <= 5"),
        (Guard(Look.RANGE, At(X), Constant(0)), "-0 <= x <= 0"),
        (Guard(Look.LENGTH, At(X), Constant(2)), "len(x) == 2"),
        (Guard(Look.KEYS, At(X), Constant(("a",))), "tuple(x) == ('a',)"),
        (Guard(Look.HAS, At(X), Constant(True), Constant("k")), "'k' in x"),  # noqa: FBT003
        (Guard(Look.HAS, At(X), Constant(False), Constant("k")), "'k' not in x"),  # noqa: FBT003
        (Guard(Look.ATTRIBUTE, At(X), Constant(False), Constant("k")), "hasattr(x, 'k') is False"),  # noqa: FBT003
        (Guard(Look.SAME, At(X), At(SELF)), "x is self"),
        (Guard(Look.APART, At(X), At(SELF)), "apart(x, self)"),
        (Guard(Look.DIM, Output(0), Constant(2)), "out[0].dim() == 2"),
        (Guard(Look.SIZE, At(X), Constant(4), Constant(0)), "x.size(0) == 4"),
        (Guard(Look.SHAPE, At(X), Constant((2, 3))), "x.shape == (2, 3)"),
        (Guard(Look.STRIDE, At(X), Constant((3, 1))), "x.stride() == (3, 1)"),
        (Guard(Look.DTYPE, At(X), Constant("torch.float32")), "x.dtype == torch.float32"),
        (Guard(Look.DEVICE, At(X), Constant("cpu")), "str(x.device) == 'cpu'"),
        (Guard(Look.KIND, At(X), Constant("float")), "x.is_floating_point()"),
        (Guard(Look.KIND, At(X), Constant("bool")), "x.dtype == torch.bool"),
        (Guard(Look.KIND, At(X), Constant("other")), "x.kind == 'other'"),
        (Guard(Look.REQUIRES_GRAD, At(X), Constant(False)), "x.requires_grad is False"),  # noqa: FBT003
        (
            Guard(Look.SETTING, Constant(None), Constant(True), Constant("grad_enabled")),  # noqa: FBT003
            "grad_enabled is True",
        ),
    ],
)
def test_a_guard_reads_as_python(guard: Guard, text: str) -> None:
    assert guard_text(guard) == text


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        (Effect(Op.NEW, Temporary(0), Constant("a.b:C.D")), "tmp0 = object.__new__(a.b.C.D)"),
        (Effect(Op.NEW, Temporary(0), Constant("builtins:list")), "tmp0 = []"),
        (
            Effect(Op.NEW, Temporary(0), Constant("m:f.<locals>.C")),
            "tmp0 = object.__new__(named['m:f.<locals>.C'])",
        ),
        (Effect(Op.SET_ATTRIBUTE, SELF, Constant("a"), Output(0)), "self.a = out[0]"),
        (Effect(Op.SET_ATTRIBUTE, SELF, Constant("a-b"), Output(0)), "setattr(self, 'a-b', out[0])"),
        (Effect(Op.DELETE_ATTRIBUTE, SELF, Constant("a")), "del self.a"),
        (Effect(Op.DELETE_ATTRIBUTE, SELF, Constant("a-b")), "delattr(self, 'a-b')"),
        (Effect(Op.REGISTER_BUFFER, SELF, Constant("a"), Output(0)), "self.register_buffer('a', out[0])"),
        (
            Effect(Op.REGISTER_TRANSIENT, SELF, Constant("a"), Output(0)),
            "self.register_buffer('a', out[0], persistent=False)",
        ),
        (Effect(Op.SET_ITEM, X, Constant("k"), Output(0)), "x['k'] = out[0]"),
        (Effect(Op.DELETE_ITEM, X, Constant(0)), "del x[0]"),
        (Effect(Op.APPEND, X, None, Output(0)), "x.append(out[0])"),
        (Effect(Op.EXTEND, X, None, Output(0)), "x.extend(out[0])"),
        (Effect(Op.INSERT, X, Constant(0), Output(0)), "x.insert(0, out[0])"),
        (Effect(Op.POP, X), "x.pop()"),
        (Effect(Op.POP, X, Constant("k")), "x.pop('k')"),
        (Effect(Op.CLEAR, X), "x.clear()"),
        (Effect(Op.SET_GLOBAL, at("a.b:C"), None, Output(0)), "a.b.C = out[0]"),
        (Effect(Op.SET_GLOBAL, at("a.b:C-D"), None, Output(0)), "setattr(a.b, 'C-D', out[0])"),
        (Effect(Op.SET_CELL, CELL, None, Output(0)), "kept = out[0]"),
        (Effect(Op.COPY, X, None, Output(0)), "x.copy_(out[0])"),
        (
            Effect(Op.SAVE_FOR_BACKWARD, X, None, Made("tuple", (Output(0),))),
            "x.save_for_backward(*(out[0],))",
        ),
        (Effect(Op.REGISTER_HOOK, X, Constant("m:h"), Constant(3)), "hooks[3] = x.register_hook(m.h)"),
    ],
)
def test_an_effect_reads_as_a_statement(effect: Effect, text: str) -> None:
    assert effect_text(effect) == text


def test_notes_say_when_places_are_read_and_whose_variables_cells_are() -> None:
    swap = (
        Effect(Op.SET_ATTRIBUTE, SELF, Constant("a"), At(at("self.b"))),
        Effect(Op.SET_ATTRIBUTE, SELF, Constant("b"), At(at("self.a"))),
    )
    before = "values of places are those before the call"
    assert notes_of(MethodEffects("step", (X,), Output(0), swap)) == [before]
    assert notes_of(MethodEffects("step", (X,), At(at("self.a")), ())) == [before]
    assert notes_of(
        MethodEffects("step", (X,), Output(0), (Effect(Op.SET_CELL, CELL, None, Output(1)),))
    ) == ["kept is a variable of 'm.one:outer.<locals>.inner'"]
    assert notes_of(COUNTING.methods[0]) == []


def test_the_graph_has_as_many_outputs_as_its_method_uses() -> None:
    made = Made("list", (Output(4), Made("tuple", (Output(2),))))
    assert output_count(MethodEffects("f", (), made, ())) == 5
    assert output_count(MethodEffects("f", (), Constant(1), (Effect(Op.APPEND, X, None, Output(6)),))) == 7
    assert output_count(MethodEffects("f", (), Constant(1), ())) == 0


def test_guards_name_the_sources_of_subject_and_value() -> None:
    guards = (Guard(Look.SAME, At(X), At(SELF)), Guard(Look.DIM, Output(0), Constant(2)))
    assert list(guarded(MethodEffects("f", (), Constant(1), (), guards))) == [X, SELF]


@settings(patient, max_examples=examples(100))
@given(effect_tables.tables)
def test_every_effect_is_a_statement_and_every_result_an_expression(table: EffectTable) -> None:
    for method in table.methods:
        for effect in method.effects:
            compile(effect_text(effect), "<effects>", "exec")
        compile(value_text(method.result), "<effects>", "eval")
        assert all(note.isprintable() for note in notes_of(method))
