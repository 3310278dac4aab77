"""The register machine: failures and recordings lead to their operations; real models run as in PyTorch."""

from __future__ import annotations

import warnings
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import BackendError, Delegate, lower
from archive.backend.aten.machine import noted
from archive.backend.aten.program import EACH, JUMP, JUMP_UNLESS, MOVE
from archive.backend.errors import OperationError
from tests.backend.machines import Containers, Listed, Recording, made, same
from tests.support.backend_models import Branching, cases
from tests.support.sampling import examples
from tests.support.strategies import patient

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("how", ["scripted", "traced"])
@pytest.mark.parametrize("name", cases())
def test_real_models_equal_eager(name: str, how: str) -> None:
    model, good, _ = cases()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        module = (
            torch.jit.script(model) if how == "scripted" else torch.jit.trace(model, good, check_trace=False)
        )
    one = made(module)
    inputs = [good, None, None, False][: one.program.parameters]
    with torch.no_grad():
        assert same(one.machine.run(inputs), model(good))
        assert same(one.machine.run_observed(inputs, []), model(good))


def test_branches_are_taken_as_the_arguments_say() -> None:
    model = Branching()
    for one in (made(model), made(model, fold=False)):
        for x in (torch.ones(2, 4), torch.full((2, 4), 1e4), torch.full((2, 4), -1e4)):
            for double in (False, True):
                assert same(one.machine.run([x, double]), model(x, double))


def test_constants_are_not_changed_by_whoever_gets_them() -> None:
    for fold in (True, False):
        machine = made(Listed(), fold=fold).machine
        machine.run([])[0].append(3)
        sizes, others = machine.run([])
        sizes.append(4)
        assert (sizes, others) == ([1, 2, 4], [1, 2])


def test_gradients_are_recorded_as_the_caller_says() -> None:
    model, good, _ = cases()["mlp"]
    machine = made(model).machine
    assert machine.run([good]).requires_grad
    with torch.no_grad():
        assert not machine.run([good]).requires_grad


def test_another_number_of_inputs_is_refused() -> None:
    machine = made(Branching()).machine
    with pytest.raises(TypeError, match=r"^forward takes 2 inputs, 1 were given$"):
        machine.run([torch.ones(2, 4)])


class Failing(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            if i > 2:
                raise ValueError(f"too much: {i} of {n}")
        if n < 0:
            d: dict[str, torch.Tensor] = {}
            x = d["nothing"]
        if bool(x):  # fails if there are several
            x = x + 1
        return x.reshape([3, n])


@pytest.mark.parametrize(
    ("inputs", "line", "message"),
    [
        ([torch.ones(1), 9], "raise ValueError", "too much: 3 of 9"),
        ([torch.ones(1), -1], 'd["nothing"]', "KeyError: 'nothing'"),
        ([torch.ones(2), 1], "bool(x)", "Boolean value of Tensor with more than one value is ambiguous"),
        ([torch.ones(1), 1], "x.reshape", "shape '[3, 1]' is invalid for input of size 1"),
    ],
    ids=["raised", "key", "condition", "shape"],
)
@pytest.mark.parametrize("observed", [False, True])
def test_failures_lead_to_their_operation(
    inputs: list[Any], line: str, message: str, *, observed: bool
) -> None:
    one = made(Failing())
    machine = one.machine
    run = partial(machine.run_observed, operations=[]) if observed else machine.run
    with pytest.raises(OperationError) as caught:
        run(inputs)
    assert caught.value.message == message
    assert isinstance(caught.value.__cause__, Exception)
    span = list(one.graph.operations())[caught.value.handle].range
    assert span is not None
    assert span.start is not None
    assert line in str(span.source.text)[span.start : span.end + 20]


class Unpacking(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, _, columns = x.shape
        first, second = torch.relu(x).chunk(2)
        return first.reshape(columns, rows) + second.reshape(columns, rows)


def test_a_list_of_another_length_is_told_at_the_line_that_makes_it() -> None:
    unpacking = Delegate.of(lower(Unpacking(), "aten"))
    for x, found, line in (
        # TorchScript records no place for `x.shape`, but its function has it once
        (torch.ones(2, 2), "Expected 3 elements in a list but found 2", "rows, _, columns = x.shape"),
        (torch.ones(1, 2, 2), "Expected 2 elements in a list but found 1", "torch.relu(x).chunk(2)"),
    ):
        with pytest.raises(BackendError) as caught:
            unpacking(x)
        shown = str(caught.value).splitlines()
        assert shown[0] == found
        place = next(at for at, one in enumerate(shown) if "<--- HERE" in one)
        assert line in shown[place - 1]


class Interrupting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *_: object) -> None:
        raise KeyboardInterrupt


def test_interrupts_pass_through() -> None:
    machine = made(Branching()).machine
    with pytest.raises(KeyboardInterrupt):
        machine.run([torch.ones(2, 4).as_subclass(Interrupting), True])


def test_each_operation_is_recorded_once_for_each_time_it_runs() -> None:
    one = made(Containers())
    recording = Recording()
    one.machine.run_observed([torch.ones(3, 2), 2], recording.operations, recording.memory)
    operations = list(one.graph.operations())
    kinds = [kind for _, _, _, kind in recording.operations]
    assert kinds == [operations[handle].kind for _, _, handle, _ in recording.operations]
    assert not {MOVE, JUMP, JUMP_UNLESS, EACH} & set(kinds)
    assert kinds.count("aten::_set_item") == 6
    assert kinds.count("prim::TupleUnpack") == 4 + 2
    times = [time for start, end, _, _ in recording.operations for time in (start, end)]
    assert times == sorted(times)


def test_straight_programs_record_all_their_operators() -> None:
    model, good, _ = cases()["mlp"]
    one, recording = made(model), Recording()
    one.machine.run_observed([good], recording.operations, recording.memory)
    assert [handle for _, _, handle, _ in recording.operations] == [
        step.handle for step in one.program.instructions
    ]


SCALAR = 8
"""Bytes that PyTorch allocates for a Python number among the arguments of an operator."""


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept = nn.Parameter(torch.ones(100))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = x + 1  # 400 bytes
        b = a[50:]  # a view, which keeps all of it
        c = self.kept[:50]  # no new storage
        d = [b * 2.0, c.mul(2)]  # twice 200 bytes; a is free
        return d[0].relu_() + d[1] + torch.cat(d)[:50]


def test_memory_inside_operators_is_recorded_as_pytorch_s_profiler_sees_it() -> None:
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        model(x)
        with torch.autograd.profiler.profile(profile_memory=True) as eager:
            model(x)
        total = peak = 0
        for _, size, _ in noted(eager.kineto_results)[1]:
            total += size
            peak = max(peak, total)
        delegate = Delegate.of(lower(model, "aten"))
        with delegate.recording(memory=True) as recording:
            delegate(x)
    profile = delegate.profile(recording)
    assert profile.of_allocator
    assert abs(profile.peak - peak) <= 16 * SCALAR, "numbers, which Python holds somewhat longer"
    assert peak > 4 * x.nbytes


def test_memory_is_not_recorded_within_another_profiler() -> None:
    delegate = Delegate.of(lower(nn.ReLU(), "aten"))
    with (
        torch.autograd.profiler.profile(),
        delegate.recording(memory=True) as recording,
        pytest.raises(BackendError, match=r"^memory is recorded by torch\.profiler, which runs already$"),
    ):
        delegate(torch.ones(2))
    assert recording.memory == []


def test_memory_is_recorded_when_it_is_taken_and_freed() -> None:
    one, recording = made(Remembering()), Recording()
    with torch.no_grad():
        one.machine.run_observed([torch.ones(100)], recording.operations, recording.memory)
    operations = list(one.graph.operations())
    changes = [(operations[handle].kind, size) for _, handle, size, _, _ in recording.memory]
    assert [(kind, size) for kind, size in changes if abs(size) > SCALAR] == [
        ("aten::add", 400),
        ("aten::mul", 200),
        ("aten::mul", -400),
        ("aten::mul", 200),
        ("aten::add", 200),
        ("aten::cat", 400),
        ("aten::cat", -200),
        ("aten::cat", -200),
        ("aten::add", 200),
        ("aten::add", -200),
        ("aten::add", -400),
    ]
    total = 0
    for (_, size), (*_, stated, _) in zip(changes, recording.memory, strict=True):
        total += size
        assert stated == total
    times = [time for time, *_ in recording.memory]
    assert times == sorted(times)
    assert recording.operations[0][0] <= times[0] <= recording.operations[0][1]
    held: dict[int, int] = {}
    for _, _, size, _, address in recording.memory:
        held[address] = held.get(address, 0) + size
        assert held[address] >= 0
    assert sum(held.values()) == 200


# --- texts of values


class Formatted(nn.Module):
    def forward(self, x: torch.Tensor, name: str) -> tuple[torch.Tensor, str]:
        said = "%d of %s" % (len(name), name)  # noqa: UP031 (TorchScript has its own operator for this)
        return x, said + "%s" % name  # noqa: UP031


@pytest.mark.filterwarnings("ignore")
def test_texts_are_formatted_by_tuples_and_by_values() -> None:
    lowered = lower(Formatted(), "aten")
    for runs in (lowered, Delegate.of(lowered)):
        assert runs(torch.ones(1), "abc")[1] == "3 of abcabc"


class Shown(nn.Module):
    def forward(self, x: float, text: str) -> list[str]:
        items = [str(x), f"{x} {text}", str([x, 2.0]), str((x,)), str({text: x}), str([text, text])]
        return items + ["%s" % x, str(len(text)), text[1:]]  # noqa: UP031, RUF005 (TorchScript)


@pytest.mark.filterwarnings("ignore")
@given(st.floats(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4))
@settings(patient, max_examples=examples(50))
def test_texts_are_those_of_torchscript(x: float, text: str) -> None:
    text = f"a{text}"  # a slice within a letter is no text
    scripted, delegate = shown()
    assert delegate(x, text) == scripted(x, text)


@cache
def shown() -> tuple[torch.jit.ScriptModule, Delegate]:
    scripted = torch.jit.script(Shown())
    return scripted, Delegate.of(lower(scripted, "aten"))


class Measured(nn.Module):
    def forward(self, text: str) -> tuple[int, int, list[str]]:
        return len("Wörld"), len(text), list(text)


@pytest.mark.filterwarnings("ignore")
def test_letters_of_texts_are_bytes() -> None:
    scripted = torch.jit.script(Measured())
    lowered = lower(scripted, "aten")
    assert lowered("abc") == Delegate.of(lowered)("abc") == scripted("abc") == (6, 3, ["a", "b", "c"])


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.GRU(3, 4, 2, bidirectional=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        found, hidden = self.part(packed)
        return nn.utils.rnn.pad_packed_sequence(found, padding_value=-1.0)[0], hidden


@pytest.mark.filterwarnings("ignore")
def test_none_within_named_tuples_is_known() -> None:
    scripted = torch.jit.script(Packed().eval())
    lowered, given = lower(scripted, "aten"), (torch.randn(6, 2, 3), torch.tensor([6, 3]))
    for runs in (lowered, Delegate.of(lowered)):
        for one, other in zip(runs(*given), scripted(*given), strict=True):
            assert torch.equal(one, other)
