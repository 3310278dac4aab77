"""Several tables a method: calls of the loaded module are the eager one's, whichever entry makes them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch._dynamo
from torch import nn

import archive
from archive.backend import Effectful, lower, lowered_archive
from archive.describe.effects import inspect_effects
from archive.effects import CaptureError, GuardError, capture, capture_entries
from archive.effects.capture.graph import guards
from archive.render.inspect import effects_lines
from tests.effects import entry_models as models
from tests.effects.comparison import Comparing, named, picture, shown, state_in, state_of
from tests.effects.made_modules import Made, Statement, check_entries, made
from tests.support.corpus import FIXTURES
from tests.support.sampling import crossed, examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import SearchStrategy

    from tests.effects.made_modules import Made


pytestmark = pytest.mark.torch

# --- Hypothesis strategies: modules that branch on what calls change, and change it in each arm


AROUND = """
TOTAL = 0


class Note:
    def __init__(self, value):
        self.value = value
        self.reads = 0
"""
START = """\
self.n = 0
self.t = 0.5
self.flag = False
self.mode = "a"
self.last = None
self.note = None
self.keys = torch.zeros(0, 3)
self.history = []
self.table = {}
self.register_buffer("seen", torch.zeros(3))"""
CONDITIONS = (
    "self.n > @",
    "self.n % 3 == @",
    "self.n == len(self.history)",
    "self.n",
    "self.n < x.size(0)",
    "self.t > 1.@",
    "self.flag",
    "not self.flag",
    "self.mode == 'a'",
    "self.last is None",
    "self.note is not None",
    "self.history",
    "len(self.history) > @",
    "len(self.history) >= 2 and self.flag",
    "self.history == []",
    "'k' in self.table",
    "len(self.table) > 1",
    "not self.table",
    "hasattr(self, 'lazy')",
    "self.keys.size(0) > 2",
    "TOTAL > @",
    "TOTAL + self.n == @",
    "(self.n + @) * 2 - len(self.history) > 4",
    "1 <= self.n <= @",
    "max(self.n, 2) > @ or self.flag",
)
ACTIONS = (
    "self.n += 1",
    "self.n += @",
    "self.n = 0",
    "self.n = len(self.history)",
    "self.n = min(self.n + 1, 3)",
    "self.t = self.t * 1.5",
    "self.t = 0.25",
    "self.flag = not self.flag",
    "self.flag = self.n > @",
    "self.mode = 'b' if self.mode == 'a' else 'a'",
    "self.mode = 'c'",
    "self.last = x.detach()",
    "self.last = None",
    "x = x if self.last is None else x + self.last",
    "self.last = x if self.last is None else self.last * 0.5",
    "self.note = Note(x.sum())",
    "self.note = None",
    "if self.note is not None: self.note.reads += 1",
    "x = x if self.note is None else x + self.note.value * self.note.reads",
    "self.history.append(x.sum())",
    "self.history.append(self.n)",
    "self.history.insert(0, x.mean())",
    "self.history = self.history[-2:]",
    "if self.history: self.history.pop(0)",
    "if len(self.history) > @: self.history.pop()",
    "del self.history[:1]",
    "self.history.clear()",
    "x = x * len(self.history)",
    "x = x + sum(self.history)",
    "x = x + (self.history[-1] if self.history else 1)",
    "for one in self.history: x = x + one",
    "self.table['k'] = x",
    "self.table['l'] = self.n",
    "self.table.pop('k', None)",
    "self.table.setdefault('m', 2.5)",
    "if 'k' in self.table: x = x + self.table['k']",
    "for one in self.table.values(): x = x + one",
    "self.table.clear()",
    "self.lazy = getattr(self, 'lazy', @) + 1",
    "if hasattr(self, 'lazy'): del self.lazy",
    "x = x + self.n",
    "x = x * self.t",
    "for _ in range(self.n % 3): x = x + 1",
    "x = x * [1, 2, 3][self.n % 3]",
    "self.seen.add_(x.detach().sum(0))",
    "self.seen = self.seen * 0.5",
    "x = x - self.seen",
    "self.keys = torch.cat([self.keys, x.detach()])[-3:]",
    "x = x + self.keys.sum()",
    "self.same = self.history",
    "self.held = self.last",
    "TOTAL += 1",
)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _block(inner: SearchStrategy[list[str]]) -> SearchStrategy[list[str]]:
    return st.lists(inner, min_size=1, max_size=2).map(lambda some: [line for one in some for line in one])


def _numbered(text: str) -> SearchStrategy[str]:
    return st.integers(0, 3).map(lambda number: text.replace("@", str(number)))


actions = st.sampled_from(ACTIONS).flatmap(_numbered).map(lambda text: [text])
conditions = st.sampled_from(CONDITIONS).flatmap(_numbered)


def _branch(inner: SearchStrategy[list[str]]) -> SearchStrategy[list[str]]:
    arms = st.tuples(conditions, _block(inner), st.none() | _block(inner))
    return arms.map(
        lambda arm: [
            f"if {arm[0]}:",
            *_indented(arm[1]),
            *(["else:", *_indented(arm[2])] if arm[2] is not None else []),
        ]
    )


bodies = st.lists(actions | _branch(actions | _branch(actions)), min_size=3, max_size=7)


def branching() -> SearchStrategy[Made]:
    """Modules with branches."""
    return bodies.map(
        lambda some: made(
            [Statement("; ".join(["global TOTAL", *(line for one in some for line in one)]), START, AROUND)]
        )
    )


# --- what is tested


X = torch.ones(3)
NOTE = {f"{models.__name__}:Note": models.Note}
CALLS = 8


def argument(number: int) -> torch.Tensor:
    return torch.randn(2, 3, generator=torch.Generator().manual_seed(number))


def line_of(cls: type) -> str:
    """The line that ends in ``# here``, as errors name it."""
    lines, first = inspect.getsourcelines(cls)
    number = next(number for number, line in enumerate(lines) if line.rstrip().endswith("# here"))
    return f"line {first + number}"


def compare(eager: nn.Module, loaded: Effectful, calls: Sequence[tuple[torch.Tensor, ...]]) -> None:
    """Calls of both, their results and states after each."""
    before = {path: shown(one) for path, one in named(state_of(eager, models))}
    for arguments in calls:
        comparing = Comparing(before)
        comparing.same(eager(*arguments), loaded(*arguments), "result")
        comparing.same(state_of(eager, models), state_in(loaded), "")


@pytest.mark.parametrize(("cls", "stock"), crossed(models.ENTRIES, [False, True], most=12))
def test_calls_and_state_are_the_eager_ones(cls: type[nn.Module], stock: bool, monkeypatch: Any) -> None:  # noqa: ANN401, FBT001
    monkeypatch.setattr(models, "TOTAL", 0)
    eager = cls()
    data = lowered_archive(lower(eager, "aten", effects=True, example_inputs=(argument(0),)))
    loaded = Effectful.load(data, stock=stock, allow=NOTE)
    table = loaded.delegate.archive.effects
    assert table is not None
    assert len(table.methods) == models.ENTRIES[cls]
    compare(eager, loaded, [(argument(number),) for number in range(CALLS)])


def test_a_threshold_far_away_is_an_entry() -> None:
    eager = models.Steps()
    loaded = Effectful.of(lower(eager, "aten", effects=True, example_inputs=(X,)))
    eager.n = loaded.state.module.n = 999
    compare(eager, loaded, [(X,)] * 3)


def test_a_window_longer_than_all_plays_is_an_entry() -> None:
    eager = models.Window(100)
    loaded = Effectful.of(lower(eager, "aten", effects=True, example_inputs=(X,)))
    compare(eager, loaded, [(argument(number)[0],) for number in range(103)])


@pytest.mark.parametrize("cls", [models.Listed, models.Tables])
def test_dynamo_compiles_as_many_frames(cls: type[nn.Module]) -> None:
    """Dynamo compiles a frame anew whenever its guards fail."""
    torch._dynamo.reset()
    graphs: list[torch.fx.GraphModule] = []

    def compiling(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        graphs.append(graph)  # counted here: PyTorch's own counters have frames of others, too
        forward: Callable[..., object] = graph.forward
        return forward

    compiled = torch.compile(cls(), backend=compiling)
    for number in range(CALLS):
        compiled(argument(number))
    assert len(capture_entries(cls(), [(argument(0),)])) == models.ENTRIES[cls] == len(graphs)


def test_calls_show_what_one_example_does_not() -> None:
    eager = models.Ranks()
    calls = [(X,), (argument(1),), (X, X * 2), (argument(2), argument(3))]
    one = Effectful.of(lower(eager, "aten", effects=True, example_inputs=(X,)))
    with pytest.raises(GuardError, match=rf"expected x.dim\(\) == 1, found 2(.|\n)*{line_of(models.Ranks)}"):
        one(argument(1))
    several = Effectful.load(lowered_archive(lower(eager, "aten", effects=True, calls=calls)))
    compare(eager, several, [*calls, *calls[::-1]])


def test_calls_alike_are_one_table() -> None:
    eager = models.Ranks()
    lowered = lower(eager, "aten", effects=True, calls=[(argument(0),), (torch.ones(5, 4),)])
    once = lower(eager, "aten", effects=True, example_inputs=(argument(0),))
    assert lowered_archive(lowered) == lowered_archive(once)


def test_what_never_comes_to_an_end_is_refused_with_its_line() -> None:
    said = rf"differs from call to call; 8 tables are not enough\n.*{line_of(models.Growing)}"
    with pytest.raises(CaptureError, match=said):
        lower(models.Growing(), "aten", effects=True, example_inputs=(X,))
    with pytest.raises(CaptureError, match="; 3 tables are not enough"):
        lower(models.Listed(), "aten", effects=True, example_inputs=(X,), entries=3)
    assert len(capture_entries(models.Listed(7), [(X,)], most=8)) == 8


def test_an_arm_that_is_left_out_is_refused_when_a_call_takes_it() -> None:
    eager = models.Leaving()
    loaded = Effectful.of(lower(eager, "aten", effects=True, example_inputs=(X,)))
    compare(eager, loaded, [(X,)] * 3)
    before = picture(state_in(loaded))
    said = rf"expected not self.n \+ 1 > 3, found True(.|\n)*{line_of(models.Leaving)}"
    with pytest.raises(GuardError, match=said):
        loaded(X)
    assert picture(state_in(loaded)) == before


def test_a_call_that_fits_no_entry_names_the_nearest() -> None:
    loaded = Effectful.of(lower(models.First(), "aten", effects=True, example_inputs=(X,)))
    loaded.state.module.last = "text"
    said = "as none of the 2 that were captured; for the nearest: expected self.last is None, found 'text'"
    with pytest.raises(GuardError, match=said):
        loaded(X)
    assert loaded.state.module.last == "text"


def test_one_table_is_not_made_several() -> None:
    with pytest.raises(CaptureError, match="a second call, from where the first one ends"):
        capture(models.First(), X)
    with pytest.raises(ValueError, match="at least one entry, found 1 and 0"):
        capture_entries(models.First(), [(X,)], most=0)
    with pytest.raises(RuntimeError, match="expected calls with effects=True, and without example_inputs"):
        lower(models.First(), "aten", effects=True, example_inputs=(X,), calls=[(X,)])


def test_entries_are_listed_with_their_numbers() -> None:
    with archive.open(FIXTURES / "effects" / "windowed.pt") as opened:
        facts = inspect_effects(opened)
    assert [(one.method, one.entry) for one in facts.methods] == [("forward", number) for number in (1, 2, 3)]
    assert "not len(self.history) + 1 > 3" in [one.text for one in facts.methods[1].guards]
    assert list(effects_lines(facts)).count("# forward, 2 of 3: a call for which") == 1
    with archive.open(FIXTURES / "effects" / "counting.pt") as opened:
        assert [one.entry for one in inspect_effects(opened).methods] == [0]


@given(model=branching())
@settings(patient, max_examples=examples(10))
def test_branches_on_what_calls_change(model: Made) -> None:
    check_entries(model, argument, CALLS)


class Sampled(nn.Module):
    """The size of a random sample decides; what the second arm computes fails for few."""

    def __init__(self) -> None:
        super().__init__()
        self.many = self.few = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x[torch.rand(x.shape) < x]
        if y.shape[0] > len(x) // 2:
            self.many += 1
            return y[32] + y
        self.few += 1
        return y - 1


@pytest.mark.parametrize("stock", [False, True])
@pytest.mark.parametrize("first", [0.9, 0.1])
def test_entries_tried_before_the_right_one_take_no_random_numbers(first: float, *, stock: bool) -> None:
    """Neither in the trial, nor later, whether the graph of such an entry fails or gives what is refused."""
    calls = [(torch.full((64,), share),) for share in (first, 1 - first)]
    eager = Sampled()
    loaded = Effectful.of(lower(eager, "aten", effects=True, calls=calls), stock=stock)
    for seed in range(8):
        (argument,) = calls[seed // 2 % 2]
        results = []
        for module in (eager, loaded):
            torch.manual_seed(seed)
            results.append((module(argument), torch.rand(1)))
        torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    assert (loaded.state.module.many, loaded.state.module.few) == (eager.many, eager.few) == (4, 4)


def test_weights_are_copied_once_for_all_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    eager = models.Phases()
    copies: list[Any] = []
    real = guards.copied

    def copied(tensor: Any) -> Any:  # noqa: ANN401
        copies.append(tensor)
        return real(tensor)

    monkeypatch.setattr(guards, "copied", copied)
    loaded = Effectful.of(lower(eager, "aten", effects=True, example_inputs=(torch.ones(2, 3),)))
    assert sum(one is eager.layer.weight for one in copies) == 1
    compare(eager, loaded, [(argument(number),) for number in range(17)])
