"""Effects as Python: each fact's text, and programs that compile and do the same as replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from archive.effects.replay.replay import replay
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
from archive.formats.effects.program_text import method_program
from archive.formats.effects.source_text import effect_text, guard_text, source_text, value_text
from tests.effects.programs import (
    ALLOWED,
    CELL,
    SELF,
    Tensor,
    X,
    at,
    interpreted,
    methods,
    namespace,
    outputs,
    picture,
    started,
)
from tests.support import effect_tables
from tests.support.effect_tables import COUNTING
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from archive.effects.replay.state import State
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


def test_a_method_reads_as_a_function() -> None:
    assert str(method_program(COUNTING.methods[0])) == (
        "# graph(x, self.count) -> 3 values\n"
        "def forward(self, x, out):\n"
        "    tmp0 = object.__new__(package.module.Thing)\n"
        "    tmp0.value = out[1]\n"
        "    self.count = out[2]\n"
        "    self.history.append(out[0])\n"
        "    return out[0]\n"
    )


def test_a_source_that_an_earlier_change_touches_is_read_first() -> None:
    swap = MethodEffects(
        "step",
        (X,),
        Made("tuple", (Output(0), At(at("self.a")))),
        (
            Effect(Op.SET_ATTRIBUTE, SELF, Constant("a"), At(at("self.b"))),
            Effect(Op.SET_ATTRIBUTE, SELF, Constant("b"), At(at("self.a"))),
            Effect(Op.SET_CELL, CELL, None, At(at("m:COUNT"))),
            Effect(Op.SET_GLOBAL, at("m:COUNT"), None, At(CELL)),
            Effect(Op.COPY, at("self.mean"), None, At(at("self.var"))),
            Effect(Op.COPY, at("self.var"), None, At(at("self.mean"))),
        ),
    )
    assert str(method_program(swap)) == (
        "# graph(x) -> 1 value\n"
        "def step(self, x, out):\n"
        "    global kept  # of 'm.one:outer.<locals>.inner'\n"
        "    old0 = self.a\n"
        "    old1 = kept\n"
        "    old2 = self.mean.clone()\n"
        "    self.a = self.b\n"
        "    self.b = old0\n"
        "    kept = m.COUNT\n"
        "    m.COUNT = old1\n"
        "    self.mean.copy_(self.var)\n"
        "    self.var.copy_(old2)\n"
        "    return (out[0], old0)\n"
    )


def test_no_name_hides_another() -> None:
    names = ("out", "object", "tmp0", "old1", "hooks", "float", "modules")
    method = MethodEffects(
        "forward",
        tuple(Local(name) for name in names),
        At(ClosureCell("m:f", "out")),
        (
            Effect(Op.SET_GLOBAL, GlobalName("out", "N"), None, At(ClosureCell("m:g", "out"))),
            Effect(Op.SET_CELL, ClosureCell("m:f", "out"), None, Output(0)),
        ),
    )
    assert str(method_program(method)) == (
        "# graph(out, object, tmp0, old1, hooks, float, modules) -> 1 value\n"
        "def forward(self, out, object_2, tmp0, old1, hooks, float_2, modules, out_4):\n"
        "    global out_2  # of 'm:f'\n"
        "    global out_3  # of 'm:g'\n"
        "    old_0 = out_2\n"
        "    modules_2['out'].N = out_3\n"
        "    out_2 = out_4[0]\n"
        "    return old_0\n"
    )


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
def test_every_program_compiles(table: EffectTable) -> None:
    for method in table.methods:
        source = str(method_program(method))
        compile(source, "<effects>", "exec")
        assert all(line.startswith(("    ", "def ", "# graph(")) for line in source.splitlines())


def ran(method: MethodEffects, state: State, out: list[Any], x: Tensor) -> Any:  # noqa: ANN401
    """The result of the printed program."""
    program = method_program(method)
    space = namespace(state)
    for name, cell in program.cells.items():
        space[name] = state.cell(cell.function, cell.name).cell_contents
    exec(compile(str(program), "<effects>", "exec"), space)  # noqa: S102 (what is tested)
    result = space[program.name](state.module, x, out)
    for name, cell in program.cells.items():
        state.cell(cell.function, cell.name).cell_contents = space[name]
    return result


@settings(patient, max_examples=examples(100))
@given(methods())
def test_the_program_does_what_replay_does(method: MethodEffects) -> None:
    expected, replayed, found = started(method), started(method), started(method)
    tensors = [Tensor(3, 4) for _ in range(3)]
    given_out = [outputs() for _ in range(3)]
    try:
        result = interpreted(method, expected, given_out[0], {"x": tensors[0]})
    except Exception:  # noqa: BLE001 (whichever)
        compile(str(method_program(method)), "<effects>", "exec")
        return
    wanted = picture(expected, result, tensors[0], given_out[0])
    result = replay(method, replayed, given_out[1], arguments={"x": tensors[1]}, allow=ALLOWED)
    assert picture(replayed, result, tensors[1], given_out[1]) == wanted
    result = ran(method, found, given_out[2], tensors[2])
    assert picture(found, result, tensors[2], given_out[2]) == wanted, str(method_program(method))
