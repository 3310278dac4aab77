"""Captured modules: the graph and its effects do what the module does, and capturing leaves no trace."""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.effects import CaptureError, capture
from archive.effects.capture.graph.guards import same_elements
from archive.effects.capture.graph.sites import comparison_by_identity
from archive.effects.replay.replay import prepared
from archive.effects.replay.state import State
from archive.formats.effects.model import At, Attribute, EffectTable, Item, Local, Made, Op, Output
from tests.effects import changing_models as models
from tests.effects import container_models as containers
from tests.effects import refused_models
from tests.effects.changing_models import CASES, Case, X
from tests.effects.comparison import scripted
from tests.effects.refused_models import REFUSALS
from tests.support.backend_models import cases as backend_cases
from tests.support.live_state import live_state
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.effects.capture.entries import Captured

pytestmark = pytest.mark.torch

ALLOWED = [
    "tests.effects.changing_models:Note",
    "tests.effects.changing_models:Entry",
]
CALLS = 4


def fresh(case: Case) -> nn.Module:
    """A model, and its globals, as at first."""
    models.CALLS = 0
    models.SEEN.clear()
    torch.manual_seed(0)
    return case.make()


def shown(value: Any, known: dict[int, int] | None = None) -> Any:  # noqa: ANN401
    """Everything that a value is made of, and what is the same in it, to be compared."""
    known = {} if known is None else known
    if isinstance(value, nn.Module | list | dict | torch.Tensor) or hasattr(value, "__dict__"):
        if id(value) in known:
            return "the same as", known[id(value)]
        known[id(value)] = len(known)
    if isinstance(value, torch.Tensor):
        return str(value.dtype), [round(one, 4) for one in value.detach().flatten().tolist()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [shown(one, known) for one in value]
    if isinstance(value, dict):
        return {key: shown(one, known) for key, one in value.items()}
    if inspect.isroutine(value):
        return "a function"
    if hasattr(value, "__dict__"):
        return {key: shown(one, known) for key, one in sorted(value.__dict__.items())}
    return value


def all_state(model: nn.Module) -> Any:  # noqa: ANN401
    steps = model.steps() if isinstance(model, models.Cells) else None
    return shown([model, models.CALLS, models.SEEN, steps])


def arguments(case: Case, call: int) -> list[Any]:
    return [one + call if isinstance(one, torch.Tensor) else one for one in copy.deepcopy(case.arguments)]


@pytest.mark.parametrize("name", CASES)
def test_calls_and_state_are_those_of_the_module(name: str) -> None:
    case = CASES[name]
    eager = fresh(case)
    wanted = []
    for call in range(CALLS):
        given = arguments(case, call)
        wanted.append(shown([eager(*given), given]))
    ends = all_state(eager)

    model = fresh(case)
    before, given = all_state(model), copy.deepcopy(case.arguments)
    captured = capture(model, *given)
    assert all_state(model) == before
    assert shown(given) == shown(case.arguments)

    graph, side_effects = captured
    method, run = side_effects.table(), scripted(graph)
    ready = prepared(method, allow=ALLOWED)
    table = EffectTable((method,), side_effects.state.entries)
    names = list(inspect.signature(model.forward).parameters)
    states = [State.fresh(table, copy.deepcopy(side_effects.state.tensors)), live_state(model)]
    for state in states:
        for call in range(CALLS):
            given = arguments(case, call)
            named = dict(zip(names, given, strict=False))
            outputs = run(*ready.inputs(state, named))
            result = ready.replay(state, outputs, named)
            if state is states[1] or name != "Objects":
                assert shown([result, given]) == wanted[call], f"call {call}"
    assert all_state(model) == ends


@cache
def captured_once(name: str) -> Captured:
    return capture(fresh(CASES[name]), *CASES[name].arguments)


@pytest.mark.parametrize("name", sampled(CASES))
def test_captured_twice_is_the_same(name: str) -> None:
    one, other = captured_once(name), capture(fresh(CASES[name]), *CASES[name].arguments)
    ours, theirs = one.side_effects.flat(), other.side_effects.flat()
    assert (ours.effects, ours.sites, ours.guard_sites) == (theirs.effects, theirs.sites, theirs.guard_sites)
    assert list(map(str, ours.outputs)) == list(map(str, theirs.outputs))
    assert one.graph.code == other.graph.code
    assert one.side_effects.state.entries == other.side_effects.state.entries


@pytest.mark.parametrize("name", sampled(CASES))
def test_every_effect_and_node_has_a_place(name: str) -> None:
    graph, side_effects = captured_once(name)
    effects, sites = side_effects.table().effects, side_effects.flat().sites
    handles = [effect.handle for effect in effects if effect.handle >= 0]
    assert handles == list(range(len(sites)))
    assert all(sites[effect.handle].op == f"effects::{effect.op}" for effect in effects if effect.handle >= 0)
    nodes = [node for node in graph.graph.nodes if node.op in ("call_function", "call_method")]
    placed = [node.meta["site"] for node in nodes if "site" in node.meta]
    assert len(placed) >= len(nodes) - sum(effect.op is Op.COPY for effect in effects) * 2
    for site in [*sites, *placed]:
        assert site.span is not None
        assert site.span.text[site.span.start : site.span.end].strip()


def test_the_table_of_a_counter() -> None:
    method = capture(models.Counter(), X).side_effects.table()
    count = Attribute(Local("self"), "count")
    assert method.inputs == (Local("x"), count)
    assert method.result == Made("tuple", (Output(0), Output(1)))
    (effect,) = method.effects
    assert (effect.op, effect.source, effect.value) == (Op.SET_ATTRIBUTE, Local("self"), Output(1))


def test_the_place_of_an_effect_in_a_submodule() -> None:
    side_effects = capture(models.Twice(), X).side_effects
    (site,) = side_effects.flat().sites
    (step,) = site.steps
    assert site.span is not None
    assert step.span is not None
    assert site.span.text[site.span.start : site.span.end] == b"self.count"
    assert (step.function, step.type_name, step.instance) == (
        "forward",
        "__torch__.tests.effects.changing_models.Counter",
        "inner",
    )
    assert step.span.text[step.span.start : step.span.end] == b"self.inner(y)"
    assert step.span.filename.endswith(b"changing_models.py")


def test_the_place_of_a_global_s_store() -> None:
    side_effects = capture(fresh(CASES["Globals"]), X).side_effects
    effects = side_effects.table().effects
    (effect,) = (effect for effect in effects if effect.op is Op.SET_GLOBAL)
    site = side_effects.flat().sites[effect.handle]
    assert site.span is not None
    assert site.span.text[site.span.start : site.span.end] == b"CALLS"
    assert [step.function for step in site.steps] == ["counted"]


ALIKE = """
import torch

CALLS = 0


class {name}(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        global CALLS
        CALLS += 1
        self.count += 1  # {comment}
        return x if x is y else x * y
"""


def test_places_in_two_files_with_the_same_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code objects compare equal whatever their files."""
    monkeypatch.syspath_prepend(tmp_path)
    codes = []
    for module, name, comment in (("alike_first", "Net", "once"), ("alike_second", "Other", "and again")):
        path = tmp_path / f"{module}.py"
        path.write_text(ALIKE.format(name=name, comment=comment))
        cls = getattr(importlib.import_module(module), name)
        monkeypatch.delitem(sys.modules, module)
        codes.append(cls.forward.__code__)
        sites = capture(cls(), X, X + 1).side_effects.flat().sites
        assert len(sites) >= 2
        for site in sites:
            assert site.span is not None
            assert site.span.filename == str(path).encode()
            assert comment.encode() in site.span.text
        found = comparison_by_identity(codes[-1])
        assert found is not None
        assert found[0] is codes[-1]
    assert codes[0] == codes[1]


def test_parameters_that_are_only_read_are_the_module_s_own() -> None:
    model = models.Norm()
    graph, side_effects = capture(model, X)
    assert graph.get_parameter("body.0.weight") is model.body[0].weight
    names = {source.name for source in side_effects.table().inputs if isinstance(source, Attribute)}
    assert names == {"running_mean", "running_var", "num_batches_tracked"}
    assert capture(model.eval(), X).side_effects.table().effects == ()


def test_old_items_are_read_from_the_end_they_were_asked_for() -> None:
    method = capture(containers.Window(), X).side_effects.table()
    window = Attribute(Local("self"), "window")
    assert set(method.inputs) == {Local("x"), Item(window, 0), Item(window, 1)}


def test_a_tensor_that_is_put_somewhere_is_itself() -> None:
    method = capture(models.Rebound(), X).side_effects.table()
    (effect,) = (effect for effect in method.effects if effect.value == At(Local("x")))
    assert effect.source == Local("self")


LIBRARY: dict[str, tuple[nn.Module, torch.Tensor]] = {
    "lstm": (nn.LSTM(4, 3, batch_first=True), torch.ones(2, 5, 4)),
    "attention": (nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), torch.ones(2, 5, 4)),
    "instance norm": (nn.InstanceNorm1d(5, track_running_stats=True), torch.rand(2, 5, 4)),
    "spectral norm": (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), torch.ones(4)),
    **{name: (case.model, case.good) for name, case in backend_cases().items()},
}


@pytest.mark.parametrize("name", LIBRARY)
def test_pytorch_s_own_modules(name: str) -> None:
    model, x = copy.deepcopy(LIBRARY[name])
    eager = copy.deepcopy(model)
    graph, side_effects = capture(model, x)
    ready, state = prepared(side_effects.table()), live_state(model)
    argument = next(iter(inspect.signature(model.forward).parameters))
    run = scripted(graph)
    for _ in range(3):
        outputs = run(*ready.inputs(state, {argument: x}))
        result = ready.replay(state, outputs, {argument: x})
        torch.testing.assert_close(result, eager(x))
    torch.testing.assert_close(dict(model.state_dict()), dict(eager.state_dict()))


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(REFUSALS)), ids=[one[2].__name__ for one in REFUSALS])
def test_refused(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    message, attributes, forward = REFUSALS[number]
    model = refused_models.module(attributes, forward)
    if forward.__name__ == "overlapping":
        model.part = model.whole[:2]
    before = shown(model)
    with pytest.raises(CaptureError) as caught:
        capture(model, X.clone())
    assert message in caught.value.message
    lines, start = inspect.getsourcelines(forward)
    wanted = [start + place for place, line in enumerate(lines) if "# here" in line]
    assert [caught.value.line] == wanted
    assert caught.value.filename == refused_models.__file__
    assert lines[wanted[0] - start].strip() in str(caught.value)
    assert shown(model) == before
    assert capsys.readouterr().out == ""


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(CaptureError, match="missing a required argument"):
        capture(models.Counter())


def test_two_functions_that_no_name_tells_apart() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, _ = models._stepped()
            self.two, _ = models._stepped()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(self.one(x))

    with pytest.raises(CaptureError, match="no name distinguishes them"):
        capture(Two(), X)


class Summed(nn.Module):
    """It adds a buffer's sum to what it is given, and counts."""

    def __init__(self, edges: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("edges", edges)
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.edges.sum()


AT, ENDS = torch.tensor([0, 1, 2]), torch.tensor([5, 7])
WIDE = (2, 1 << 50)
SPARSE: dict[str, Callable[..., torch.Tensor]] = {
    "coo": lambda elements: torch.sparse_coo_tensor(torch.stack((AT[:2], ENDS)), elements, WIDE),
    "csr": lambda elements: torch.sparse_csr_tensor(AT, ENDS, elements, WIDE),
    "csc": lambda elements: torch.sparse_csc_tensor(AT, ENDS, elements, WIDE[::-1]),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", SPARSE)
def test_a_sparse_tensor_that_no_memory_holds_dense(name: str) -> None:
    effects = capture(Summed(SPARSE[name](torch.ones(2))), X).side_effects.table().effects
    assert [effect.op for effect in effects] == [Op.SET_ATTRIBUTE]


LAYOUTS = (
    torch.strided,
    torch.sparse_coo,
    torch.sparse_csr,
    torch.sparse_csc,
    torch.sparse_bsr,
    torch.sparse_bsc,
)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_tensors_are_the_same_if_their_parts_are(layout: torch.layout) -> None:
    dense = torch.tensor([[0.0, 2.0], [3.0, torch.nan]])

    def made(tensor: torch.Tensor, layout: torch.layout = layout) -> torch.Tensor:
        blocks = {"blocksize": (1, 1)} if layout in (torch.sparse_bsr, torch.sparse_bsc) else {}
        return tensor.clone() if layout is torch.strided else tensor.to_sparse(layout=layout, **blocks)

    assert same_elements(made(dense), made(dense))
    assert same_elements(made(torch.eye(2)), made(torch.eye(2)))
    for other in (dense.nan_to_num(), dense.T, dense * 2, torch.eye(2), torch.cat((dense, dense))):
        assert not same_elements(made(dense), made(other))
        assert not same_elements(made(other), made(dense))
    other_layout = torch.sparse_coo if layout is torch.strided else torch.strided
    assert not same_elements(made(dense), made(dense, other_layout))


FLOATS = [
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex)
]
ZEROS = {0x00, 0x80}
"""The bytes of 0 and of -0."""


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", dict.fromkeys(FLOATS), ids=str)
def test_numbers_are_the_same_by_their_bits_and_nan_is_nan(dtype: torch.dtype) -> None:
    """Each number is the same as itself, and as no other one unless both are nan."""

    def made(number: int) -> torch.Tensor:
        data = [number] if dtype.itemsize == 1 else [1] * (dtype.itemsize - 1) + [number]
        return torch.tensor(data, dtype=torch.uint8).view(dtype)

    patterns = [made(number) for number in range(256)]
    are_nan = [bool(one.isnan()) for one in patterns]
    traits = (are_nan.__getitem__, lambda number: number >> 4, lambda number: number in ZEROS and number)
    for number in sampled(range(256), 24, traits):
        same = [same_elements(patterns[number], other) for other in patterns]
        assert same == [
            number == other or (are_nan[number] and is_nan) for other, is_nan in enumerate(are_nan)
        ]


def test_views_that_conjugate_or_negate_have_the_elements_that_they_show() -> None:
    pair = torch.tensor([1 + 2j, complex(0.0, -0.0), complex(torch.nan, 1)])
    imaginary = pair.conj().imag
    assert imaginary.is_neg()
    for view in (pair.conj(), imaginary):
        assert same_elements(view, view.clone())
    assert same_elements(imaginary, torch.tensor([-2.0, 0.0, -1.0]))
    assert not same_elements(imaginary, torch.tensor([-2.0, -0.0, -1.0]))
    assert not same_elements(pair, pair.conj())
    assert not same_elements(torch.zeros(1), torch.zeros(1, dtype=torch.float64))
