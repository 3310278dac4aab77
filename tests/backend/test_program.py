"""Programs: they compute what models do; in texts constants stay what they are, tampered ones are refused."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend.aten.blob import decoded, encoded
from archive.backend.aten.constants import HeldAt, HeldList, TensorAt
from archive.backend.aten.machine import Machine
from archive.backend.aten.operators import PYTHON_CALLS as RUN_BY_PYTHON
from archive.backend.aten.operators import supported
from archive.backend.aten.program import MachineInstruction, MachineProgram, program_of
from archive.backend.graph.inlining import inlined
from archive.backend.graph.range_finder import RangeFinder
from archive.base.errors import ArchiveError, LoweringError
from tests.backend.machines import Containers, Listed, Searching, made, same
from tests.support.backend_models import Branching
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch


class Swapped(nn.Module):
    def forward(self, n: int) -> tuple[int, int, int]:
        a, b, c = 1, 2, 3
        for _ in range(n):
            a, b, c = c, a, b
        return a, b, c


class Fibonacci(nn.Module):
    def forward(self, n: int) -> tuple[int, int]:
        a, b = 0, 1
        while a < n:
            a, b = b, a + b
        return a, b


class Tuples(nn.Module):
    def forward(self, x: torch.Tensor, n: int | None) -> tuple[tuple[int, torch.Tensor], list[int], float]:
        values = (1, x, "three", 4)
        first, _, _, last = values
        tail = values[2:]
        a, b = torch.max(x, 0)
        head, rest = torch.split(x, 1)
        if n is not None:
            last += n
        assert len(tail[0]) == 5, "three"
        size = max(x.shape[0], 2) + min([4, 9]) + abs(-last) + 7 // 2 + (-7) % 3
        return (first + size, a + b + head - rest), [1, 2, last], float(round(2.5)) if last > 0 else 0.1


class InPlace(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        y = torch.zeros_like(x, dtype=torch.float64, device=x.device)
        for i in range(n):
            y[i % 2].add_(x[0], alpha=i)
            if i == 3:
                y = y.to(torch.float32)
        return y


OWN: list[tuple[type[nn.Module], list[Any]]] = [
    *[(Swapped, [n]) for n in (0, 1, 2, 5)],
    *[(Fibonacci, [n]) for n in (0, 1, 1000)],
    *[(Searching, [torch.tensor([2]), n]) for n in (-5, 3, 500)],
    *[(Containers, [torch.arange(6.0).reshape(3, 2), n]) for n in (0, 2, 9)],
    *[(Tuples, [torch.tensor([[1.0, 5.0], [2.0, 3.0]]), n]) for n in (None, -9, 3)],
    (Listed, []),
    *[(InPlace, [torch.ones(2, 3), n]) for n in (0, 3, 6)],
]


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize(("model", "inputs"), OWN, ids=str)
def test_programs_equal_eager_and_scripted(model: type[nn.Module], inputs: list[Any], *, fold: bool) -> None:
    machine = made(model(), fold=fold).machine
    expected = model()(*inputs)
    assert same(torch.jit.script(model())(*inputs), expected)
    for _ in range(2):
        assert same(machine.run(inputs), expected)
        assert same(machine.run_observed(inputs, []), expected)


def test_tensors_are_shared_by_all_methods() -> None:
    model = Branching()
    first, again = made(model), made(model)
    assert [id(one) for one in first.tensors] == [id(one) for one in again.tensors]
    tensors = list(first.tensors)
    program, _ = program_of(first.graph, {}, tensors)
    assert len(tensors) == len(first.tensors) == 2
    assert program.constants == first.program.constants
    assert encoded({"forward": first.program}) == encoded({"forward": again.program})


def test_operators_that_reach_out_are_not_run() -> None:
    class Reaching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.manual_seed(3)
            if x.dim() > 1:
                torch.save(x, "x")
            return x

    scripted = torch.jit.script(Reaching())
    _, unsupported = program_of(inlined(scripted._c, "forward", RangeFinder.of(scripted._c)), {}, [])
    assert [one.kind for one in unsupported] == ["aten::manual_seed", "aten::save"]
    names = [
        "from_file",
        "set_grad_enabled",
        "seed",
        "set_.source_Storage",
        "record_stream",
        "wait",
        "nothing",
    ]
    assert not any(supported(f"aten::{name}") for name in names)
    assert not any(
        map(supported, ["prim::PythonOp", "prim::rpc_sync", "os::system", "move", "", "aten::add."])
    )
    assert all(supported(name) for name in RUN_BY_PYTHON if "." in name)


# --- programs as text


CONSTANTS = [
    *(None, True, 0, 1, -(1 << 63), 0.1, -0.0, 1e308, math.inf, -math.inf, math.nan, "", "é\ud800", 2j),
    *(complex(math.inf, math.nan), torch.device("cuda:1"), torch.float16, TensorAt(0)),
    *([], [1, [2.5]], (), (1,), {"a": [TensorAt(0)], 2: (None,), 1.5: {}}, HeldAt(1), HeldList()),
]


def text_of(*instructions: MachineInstruction, constants: dict[int, Any]) -> str:
    """The text of a program that takes two values and gives back its last register."""
    last = 2 + len(instructions)
    return encoded({"forward": MachineProgram("forward", 2, last + 1, instructions, constants, last)})


ADDED = MachineInstruction("aten::add.Tensor", (3,), (0, 1, 2), 7)


TEXT = text_of(ADDED, constants={2: 1})


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_constants_stay_what_they_are(value: object) -> None:
    read = decoded(text_of(constants={2: value}), 1, 2)["forward"].constants[2]
    assert repr(read) == repr(value)
    assert type(read) is type(value)


def test_programs_that_hold_attributes_have_a_version_of_their_own() -> None:
    assert '"version":1' in text_of(constants={2: TensorAt(0)})
    assert '"version":2' in text_of(constants={2: HeldAt(0)})
    assert '"version":2' in text_of(constants={2: HeldList()})


@pytest.mark.parametrize(
    "form", ['{"held":2}', '{"held":-1}', '{"held":"0"}', '{"all held":0}', '[{"held":2}]']
)
def test_attributes_that_are_not_there_are_refused(form: str) -> None:
    text = text_of(constants={2: HeldAt(0)})
    assert '{"held":0}' in text
    with pytest.raises(ArchiveError):
        decoded(text.replace('{"held":0}', form), 0, 2)


def test_what_no_text_can_hold_is_refused() -> None:
    with pytest.raises(LoweringError, match="no form for a constant of type object"):
        text_of(constants={2: [object()]})


TAMPERED: dict[str, tuple[Callable[[str], str], str]] = {
    "JSON": (lambda text: text[:-1], "expected a program as JSON"),
    "nesting": (lambda _: "[" * 100_000, "expected a program as JSON"),
    "deep constant": (lambda text: text.replace("[[2,1]]", f"[[2,{'[' * 900}{']' * 900}]]"), "a constant"),
    "huge number": (lambda text: text.replace('"registers":4', f'"registers":{"9" * 5000}'), "64 bits"),
    "infinite": (lambda text: text.replace("[[2,1]]", "[[2,1e999]]"), "not finite"),
    "NaN": (lambda text: text.replace("[[2,1]]", "[[2,NaN]]"), "not finite"),
    "version": (
        lambda text: text.replace('"version":1', '"version":3'),
        "program: expected version 1 or 2, found 3",
    ),
    "field": (lambda text: text.replace('"result"', '"other"'), "expected the fields method"),
    "twice": (lambda text: text.replace('"result":3', '"result":3,"result":3'), "twice"),
    "operator": (lambda text: text.replace("aten::add.Tensor", "aten::save"), "expected an operator"),
    "name": (lambda text: text.replace('"forward"', '"../x"'), "expected a method's name"),
    "parameters": (lambda text: text.replace('"parameters":2', '"parameters":true'), "method forward: "),
    "registers": (lambda text: text.replace('"registers":4', '"registers":9'), "expected 4 registers"),
    "allocation": (
        lambda text: text.replace('"registers":4', '"registers":999999999'),
        "number of registers",
    ),
    "result": (lambda text: text.replace('"result":3', '"result":4'), "a register as the result, found 4"),
    "constant": (lambda text: text.replace("[[2,1]]", "[[1,1]]"), "constants in registers of their own"),
    "tensor": (lambda text: text.replace("[[2,1]]", '[[2,{"tensor":1}]]'), "register 2: expected a constant"),
    "device": (lambda text: text.replace("[[2,1]]", '[[2,{"device":"x:y"}]]'), "no device"),
    "object": (lambda text: text.replace("[[2,1]]", '[[2,{"a":1}]]'), "expected a constant"),
    "input": (
        lambda text: text.replace("[0,1,2]", "[0,1,4]"),
        "method forward, instruction 0: expected registers, found [0, 1, 4]",
    ),
    "unwritten": (lambda text: text.replace("[0,1,2]", "[0,1,3]"), "written further above, found [3]"),
    "overwritten": (lambda text: text.replace("[3],[0", "[2],[0"), "constants to stay as they are"),
    "arity": (lambda text: text.replace("[0,1,2]", "[0,1]"), "as many values as aten::add.Tensor takes"),
    "makes": (lambda text: text.replace("[3],[0", "[3,3],[0"), "found '3 and 2'"),
    "handle": (lambda text: text.replace(",7,", ",-2,"), "a debug handle, found -2"),
    "target": (lambda text: text.replace("7,null", "7,0"), "a target of a jump, found 0"),
    "jump": (
        lambda text: text.replace("aten::add.Tensor", "jump").replace("7,null", "7,2"),
        "a target of a jump, found 2",
    ),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_tampered_texts_are_refused_with_their_place(case: str) -> None:
    assert decoded(TEXT, 0)["forward"].instructions == (ADDED,)
    change, said = TAMPERED[case]
    text = change(TEXT)
    assert text != TEXT
    with pytest.raises(ArchiveError) as caught:
        decoded(text, 0)
    assert said in str(caught.value)


SEARCHING = encoded({"forward": made(Searching()).program})


@patient
@given(st.data())
def test_any_change_gives_a_program_or_an_error(data: st.DataObject) -> None:
    text = SEARCHING
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 6))
        pieces = [
            "",
            "0",
            "-1",
            "99999999999999999999",
            "null",
            "[]",
            "{}",
            '"',
            ",",
            "[",
            "]",
            '"aten::add"',
        ]
        text = text[:start] + data.draw(st.one_of(st.sampled_from(pieces), st.text(max_size=3))) + text[end:]
    try:
        programs = decoded(text, 1)
    except ArchiveError:
        return
    for program in programs.values():
        Machine(program, [torch.ones(1)])


def replaced(value: Any, path: list[int], new: object) -> Any:  # noqa: ANN401
    """JSON in which one value, found by choices on the way to it, is another one."""
    if not path or not isinstance(value, list | dict) or not value:
        return new
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    chosen = keys[path[0] % len(keys)]
    pairs = [(key, replaced(value[key], path[1:], new) if key == chosen else value[key]) for key in keys]
    return dict(pairs) if isinstance(value, dict) else [one for _, one in pairs]


@patient
@given(
    st.lists(st.integers(0, 1 << 30), max_size=6),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 60),
        st.integers(),
        st.floats(),
        st.text(max_size=3),
        st.sampled_from(
            [[], {}, [0], {"tensor": 0}, {"tuple": 3}, {"dict": [[[], 1]]}, "jump", "aten::add.t"]
        ),
    ),
)
def test_any_other_value_gives_a_program_or_an_error(path: list[int], new: object) -> None:
    try:
        programs = decoded(json.dumps(replaced(json.loads(SEARCHING), path, new)), 1)
    except ArchiveError:
        return
    for program in programs.values():
        Machine(program, [torch.ones(1)])
