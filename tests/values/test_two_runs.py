"""Two forms of one model side by side: equal ones differ nowhere, and a fault is found at its line."""

from __future__ import annotations

import copy
import linecache
from functools import cache
from itertools import pairwise
from math import inf, isnan
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.base.errors import ArchiveError
from archive.debuginfo.profiles.places import ModuleLevel, OperationPlace
from archive.debuginfo.source_lines import SourceLine
from archive.debuginfo.values.families import LAYOUT, computes
from archive.debuginfo.values.gaps import Gap, ValueDiff, ValueGap
from archive.debuginfo.values.observed import Observed, ObservedOperation, Summary
from archive.debuginfo.values.pairing import Pair, Pairs, paired

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend.values.comparing import gap_of
from tests.support.sampling import crossed, name_of
from tests.values.models import CASES, FAULTS, FORMS, form, made

if TYPE_CHECKING:
    from archive import Run
    from tests.values.models import Fault

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]
PAIRS = dict.fromkeys(
    [*(("eager", name) for name in FORMS), *((name, "eager") for name in FORMS), *pairwise(FORMS)]
)
PLANTED = [(name, fault) for name, faults in FAULTS.items() for fault in faults]


@cache
def run_of(name: str, form_name: str) -> Run:
    model, x = made(name)
    return archive.run(form(model, x, form_name), x)


@pytest.mark.parametrize(("name", "pair"), crossed(CASES, PAIRS, most=30), ids=name_of)
def test_no_line_is_named_for_equal_forms(name: str, pair: tuple[str, str]) -> None:
    mine, base = pair
    diff = run_of(name, mine).diff(run_of(name, base))
    assert diff.first is None
    assert not diff.is_beyond
    assert len(diff.pairs.pairs) >= min(
        sum(map(computes, run_of(name, each).operations)) - sum(diff.pairs.inside) for each in (mine, base)
    )


@pytest.mark.parametrize(("planted", "form_name"), crossed(PLANTED, FORMS, most=20), ids=name_of)
def test_a_fault_is_found_at_its_line(planted: tuple[str, Fault], form_name: str) -> None:
    name, fault = planted
    model, x = made(name)
    faulty = copy.deepcopy(model)
    fault.plant(faulty)
    with archive.run(form(faulty, x, form_name), x) as run:
        diff = run.diff(run_of(name, "eager"))
    assert diff.is_beyond
    assert diff.first is not None
    named = [diff.first.known]
    if diff.first.pair.layer is not None:
        assert form_name == "frozen"
        named.append(diff.first.pair.layer)
    sources = [each.place.source for each in named]
    assert fault.line in [
        source and linecache.getline(source.file, source.number).strip() for source in sources
    ]


def test_a_model_in_half_precision_is_beside_the_whole_one() -> None:
    model, x = made("transformer")
    half = copy.deepcopy(model).bfloat16()
    diff = archive.run(form(half, x.bfloat16(), "scripted"), x.bfloat16()).diff(
        run_of("transformer", "eager"), tolerance=0.1
    )
    assert diff.first is None
    assert all(0 < each.gap.max_rel < 0.1 for each in diff.gaps)


@pytest.mark.parametrize(
    ("ratios", "at"),
    [((inf, 12.8, 12.5, 12.2), None), ((50, 45, 34, 33), 2), ((inf, 20, 41, 32), 1), ((42, 41, 20, 32), 2)],
)
def test_a_drop_is_named_if_the_noise_doubles(ratios: tuple[float, ...], at: int | None) -> None:
    operation = ObservedOperation(0, "aten::linear", OperationPlace((), "", None, None, ""), None, 0, ())
    pair = Pair(operation, operation, "line")
    gaps = [ValueGap(pair, Gap(0, 0, ratio, 1, 0, 0, 0)) for ratio in ratios]
    diff = ValueDiff(Observed(""), Observed(""), Pairs(), gaps)
    assert diff.largest_drop is (None if at is None else gaps[at])


def test_a_coarse_layer_is_the_largest_drop_of_a_quantised_model() -> None:
    model, x = made("transformer")
    coarse = copy.deepcopy(model)
    next(fault for fault in FAULTS["transformer"] if fault.plant.__name__ == "coarse").plant(coarse)
    quantised = torch.ao.quantization.quantize_dynamic(coarse, {torch.nn.Linear}, dtype=torch.qint8)
    diff = archive.run(form(quantised, x, "scripted"), x).diff(run_of("transformer", "eager"), tolerance=0.05)
    assert diff.largest_drop is not None
    assert diff.largest_drop.known.place.module == "blocks.0.up"


def test_runs_of_different_models_are_refused() -> None:
    with pytest.raises(ArchiveError, match="results of the same sizes"):
        run_of("looping", "eager").diff(run_of("transformer", "eager"))


# --- pairs


def operation(number: int, op: str, module: str, line: int, size: int) -> ObservedOperation:
    source = SourceLine("net.py", line, "")
    levels = (ModuleLevel("top(Net)", ""), ModuleLevel(module, "M", module))
    place = OperationPlace(levels, "", source, source, op)
    return ObservedOperation(number, op, place, None, 0, (Summary((size,), "float32"),))


OPERATORS = [
    "aten::linear",
    "aten::mm",
    "aten::conv2d",
    "aten::batch_norm",
    "aten::relu",
    "aten::add",
    "quantized::linear_relu",
]
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from([*OPERATORS, *(f"aten::{name}" for name in LAYOUT)]),
        st.sampled_from(["a", "b"]),
        st.integers(1, 3),
        st.integers(1, 3),
    ),
    max_size=12,
).map(lambda rows: [operation(number, *row) for number, row in enumerate(rows)])


@given(OPERATIONS)
def test_a_run_beside_itself_is_paired_whole(operations: list[ObservedOperation]) -> None:
    found = paired(of(operations), of(operations))
    assert [(pair.mine, pair.base) for pair in found.pairs] == [
        (each, each) for each in operations if computes(each)
    ]
    assert found.left == ([], [])


@given(OPERATIONS, OPERATIONS)
def test_each_operation_is_in_one_pair_inside_one_or_left(
    mine: list[ObservedOperation], base: list[ObservedOperation]
) -> None:
    found = paired(of(mine), of(base))
    for side, operations in enumerate((mine, base)):
        in_pairs = [(pair.mine, pair.base)[side].number for pair in found.pairs]
        assert len({*in_pairs}) == len(in_pairs)
        counted = len(in_pairs) + found.inside[side] + len(found.left[side]) + found.layout[side]
        assert counted == len(operations)
    for pair in found.pairs:
        assert pair.mine.results[0].shape == pair.base.results[0].shape


@given(OPERATIONS, OPERATIONS)
def test_pairs_do_not_depend_on_which_run_is_the_base(
    mine: list[ObservedOperation], base: list[ObservedOperation]
) -> None:
    one = {(pair.mine.number, pair.base.number) for pair in paired(of(mine), of(base)).pairs}
    assert one == {(pair.base.number, pair.mine.number) for pair in paired(of(base), of(mine)).pairs}


def of(operations: list[ObservedOperation]) -> Observed:
    return Observed("", operations)


def rows(*operators: str, module: str = "a", line: int = 1, size: int = 6) -> list[ObservedOperation]:
    """Operations of one module."""
    return [operation(number, op, module, line, size) for number, op in enumerate(operators)]


@pytest.mark.parametrize(
    ("folded", "operators", "layer"),
    [
        (["aten::conv2d"], ["aten::conv2d", "aten::batch_norm"], "aten::conv2d"),
        (["aten::linear"], ["aten::linear", "aten::batch_norm"], "aten::linear"),
        (["quantized::conv2d_relu"], ["aten::conv2d", "aten::batch_norm", "aten::relu"], "aten::conv2d"),
        (["quantized::linear_relu"], ["aten::linear", "aten::relu"], "aten::linear"),
        (["quantized::add_relu"], ["aten::add", "aten::relu_"], "aten::add"),
        (["aten::linear"], ["aten::mm", "aten::add"], "aten::mm"),
        (["aten::linear", "aten::relu"], ["aten::linear", "aten::relu"], ""),
        (["aten::batch_norm", "aten::conv2d"], ["aten::batch_norm", "aten::conv2d"], ""),
    ],
)
def test_a_layer_is_beside_the_last_of_what_is_folded_into_it(
    folded: list[str], operators: list[str], layer: str
) -> None:
    last = paired(of(rows(*folded)), of(rows(*operators))).pairs[-1]
    assert (last.mine.op, last.base.op) == (folded[-1], operators[-1])
    assert not last.is_weak
    assert (last.layer.op if last.layer else "") == layer
    gap = Gap(0, 0, inf, 1, 0, 0, 0)
    assert ValueGap(last, gap).known is (last.base if layer else last.mine)


def test_norms_that_the_other_run_has_too_are_not_folded() -> None:
    operators = "aten::conv2d", "aten::batch_norm", "aten::relu", "aten::batch_norm", "aten::conv2d"
    folded = rows("aten::conv2d", "aten::relu", "aten::batch_norm", "aten::conv2d")
    found = [(pair.mine.number, pair.base.number) for pair in paired(of(folded), of(rows(*operators))).pairs]
    assert found == [(0, 1), (1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize(
    ("few", "many", "how"),
    [
        (["aten::scaled_dot_product_attention"], ["aten::bmm", "aten::softmax", "aten::bmm"], "decomposed"),
        (["aten::silu"], ["aten::sigmoid", "aten::mul"], "decomposed"),
        (["aten::silu"] * 2, ["aten::sigmoid", "aten::mul"] * 2, "end of line"),
        (["aten::silu"], ["aten::quantize_per_tensor", "aten::dequantize"], "end of line"),
    ],
)
def test_a_single_operation_is_surely_the_last_of_what_it_decomposes_into(
    few: list[str], many: list[str], how: str
) -> None:
    *_, pair = paired(of(rows(*many)), of(rows(*few))).pairs
    assert pair.mine.number == len(many) - 1
    assert pair.how == how


def test_pairs_that_are_neighbours_in_both_runs_have_the_same_between_them() -> None:
    few = ("linear", 1), ("mul", 2), ("add", 2), ("scaled_dot_product_attention", 3), ("tanh", 4)
    many = (
        ("linear", 1),
        *((name, 9) for name in ("mul", "add", "mul", "mul", "bmm", "softmax", "bmm")),
        ("tanh", 4),
    )
    mine, base = (
        [operation(number, f"aten::{name}", "a", line, 6) for number, (name, line) in enumerate(each)]
        for each in (few, many)
    )
    found = paired(of(mine), of(base))
    assert [(pair.mine.number, pair.base.number, pair.how) for pair in found.pairs] == [
        (0, 0, "module"),
        (1, 1, "between"),
        (2, 2, "module"),
        (3, 7, "decomposed"),
        (4, 8, "module"),
    ]
    assert found.inside == (0, 4)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 1e-9, 1e-3]))))
def test_a_pair_that_may_not_belong_together_is_never_the_first(pairs: list[tuple[bool, float]]) -> None:
    one = operation(0, "aten::linear", "a", 1, 1)
    gaps = [
        ValueGap(Pair(one, one, "end of line" if is_weak else "line"), Gap(0, max_rel, 9, 1, 0, 0, 0))
        for is_weak, max_rel in pairs
    ]
    diff = ValueDiff(Observed(""), Observed(""), Pairs(), gaps)
    sure = [
        gap for gap, (is_weak, max_rel) in zip(gaps, pairs, strict=True) if not is_weak and max_rel > 1e-5
    ]
    assert diff.first is (sure[0] if sure else None)
    assert all(gap.pair.is_weak and gap.gap.max_rel > 1e-5 for gap in diff.uncertain)
    before = gaps if diff.first is None else gaps[: [gap is diff.first for gap in gaps].index(True)]
    assert len(diff.uncertain) == sum(gap.gap.max_rel > 1e-5 for gap in before)


# --- gaps

NUMBERS = st.lists(st.floats(width=32), min_size=1, max_size=9)


@given(NUMBERS, st.data())
def test_a_gap_is_what_numpy_computes(numbers: list[float], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.floats(width=32), min_size=len(numbers), max_size=len(numbers)))
    mine, base = (np.array(each, np.float64) for each in (numbers, others))
    gap = gap_of(torch.tensor(numbers), torch.tensor(others))
    finite = np.isfinite(mine) & np.isfinite(base)
    same = finite | (mine == base) | (np.isnan(mine) & np.isnan(base))
    assert gap.odd == int((~same).sum())
    if gap.odd:
        distances = gap.max_abs, gap.max_rel, -gap.snr_db, gap.mse, gap.mae
        assert distances == (inf,) * 5
        assert isnan(gap.cosine)
        return
    mine, base = mine[finite], base[finite]
    if not mine.size:
        assert gap.max_abs == 0
        return
    assert gap.max_abs == np.abs(mine - base).max()
    assert gap.mae == pytest.approx(np.abs(mine - base).mean(), rel=1e-12)
    with np.errstate(over="ignore"):
        assert gap.mse == pytest.approx(np.square(mine - base).mean(), rel=1e-12)


@given(NUMBERS)
def test_equal_tensors_have_no_gap(numbers: list[float]) -> None:
    gap = gap_of(torch.tensor(numbers), torch.tensor(numbers))
    assert (gap.max_abs, gap.max_rel, gap.snr_db, gap.odd) == (0, 0, inf, 0)


class Recurrent(torch.nn.Module):
    """Returns the output of a layer with several results."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LSTM(3, 4)
        self.cells: float = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output, (_, cells) = self.layer(x, (torch.zeros(1, 2, 4), torch.full((1, 2, 4), self.cells)))
        return output.sum() * 0 + cells * 0


def test_further_results_of_an_operation_are_compared() -> None:
    model, x = Recurrent().eval(), torch.rand(5, 2, 3)
    base = archive.run(model, x)
    lstm = next(each for each in base.operations if each.op == "aten::lstm")
    assert len(lstm.results) == 3
    diff = archive.run(form(model, x, "scripted"), x).diff(base)
    found = next(each for each in diff.gaps if each.pair.mine.op == "aten::lstm")
    assert found.gap.max_abs == 0
