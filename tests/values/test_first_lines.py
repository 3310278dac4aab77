"""Where two runs part if that is no operation of both: extra ones, growing noise, folded norms."""

from __future__ import annotations

import linecache
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.render.fitted_table import lines_of
from archive.render.value_facts import comparison_facts
from archive.render.values import comparison_text
from tests.support.sampling import crossed, name_of
from tests.values.models import FAULTS, FORMS, form, made

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive import Run
    from archive.debuginfo.values.gaps import ValueDiff
    from archive.debuginfo.values.observed import ObservedOperation

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]


class Plain(nn.Module):
    """What the others have something more than."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(self.up(x) * 0.7)
        return torch.tanh(self.down(x))


class First(Plain):
    """More at the beginning."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 0.25  # extra
        x = torch.sin(self.up(x) * 0.7)
        return torch.tanh(self.down(x))


class Amid(Plain):
    """More before a line that both have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(self.up(x) * 0.7)
        x = torch.relu(x - 0.1)  # extra
        return torch.tanh(self.down(x))


class Scaled(Plain):
    """More before the last line, of an operator that another line has, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(self.up(x) * 0.7)
        x = self.down(x)
        x = x * 1.5  # extra
        return torch.tanh(x)


class Averaged(Plain):
    """More that begins with a value of another size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(self.up(x) * 0.7)
        x = x * (x.mean() + 0.5)  # extra
        return torch.tanh(self.down(x))


class Last(Plain):
    """More at the end."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(self.up(x) * 0.7)
        x = torch.tanh(self.down(x))
        return torch.cos(x)  # extra


class Unchanging(Plain):
    """More, which changes nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(self.up(x) * 0.7)
        x = torch.tanh(self.down(x + 0.0))
        return x / 1.0


@cache
def run_of(kind: Callable[[], Plain], form_name: str, scale: float = 1.0) -> Run:
    torch.manual_seed(0)
    model, x = kind().eval(), torch.rand(3, 4)
    model.down.weight.data *= scale
    return archive.run(form(model, x, form_name), x)


def text_of(operation: ObservedOperation) -> str:
    source = operation.place.source
    assert source is not None
    return linecache.getline(source.file, source.number).strip()


PAIRS = [("eager", "eager"), *pairwise(FORMS), ("scripted", "decomposed"), ("lite", "traced")]


@pytest.mark.parametrize("is_mine", [True, False], ids=["mine", "base"])
@pytest.mark.parametrize(("kind", "forms"), crossed([First, Amid, Scaled, Last], PAIRS, most=22), ids=name_of)
def test_an_operation_that_only_one_run_has_is_the_first(
    kind: Callable[[], Plain], forms: tuple[str, str], *, is_mine: bool
) -> None:
    extra, plain = run_of(kind, forms[0]), run_of(Plain, forms[1])
    diff = extra.diff(plain) if is_mine else plain.diff(extra)
    assert diff.first is not None
    assert text_of(diff.first.known).endswith("# extra")
    assert diff.first.pair.extra is diff.first.known
    assert diff.first.gap.is_beyond(diff.tolerance)
    facts = comparison_facts("", "", diff)["first"]
    assert facts is not None
    assert [bool(facts["operator"]), bool(facts["base_operator"])] == [is_mine, not is_mine]


@pytest.mark.parametrize("forms", PAIRS, ids=name_of)
def test_an_extra_operation_that_changes_nothing_is_not_blamed(forms: tuple[str, str]) -> None:
    mine, base = forms
    assert not run_of(Unchanging, mine).diff(run_of(Plain, base)).is_beyond
    first = run_of(Unchanging, mine, 1.02).diff(run_of(Plain, base)).first
    assert first is not None
    assert "self.down(x" in text_of(first.known)
    assert first.pair.extra is None


@pytest.mark.parametrize(("kind", "is_shown"), [(Averaged, True), (Scaled, False)])
def test_numbers_of_another_operation_are_not_shown_as_an_extra_ones(
    kind: Callable[[], Plain], *, is_shown: bool
) -> None:
    diff = run_of(kind, "traced").diff(run_of(Plain, "eager"))
    assert diff.first is not None
    assert text_of(diff.first.known).endswith("# extra")
    assert diff.first.is_shown is is_shown
    facts = comparison_facts("", "", diff)["first"]
    assert facts is not None
    assert facts["is_shown"] is is_shown
    shown = text(diff, 150)
    assert ("which only mine.pt has; what follows from it: max abs" in shown) is is_shown
    name, line = diff.first.known.op, diff.first.known.line
    row = next(each for each in shown.splitlines() if name in each and line in each)
    assert row.rstrip().endswith(name) is is_shown


def half() -> tuple[Run, Run]:
    model, x = made("transformer")
    whole = archive.run(model, x)
    return archive.run(model.bfloat16(), x.bfloat16()), whole


def test_noise_that_grows_beyond_the_tolerance_begins_at_no_sure_line() -> None:
    mine, base = half()
    sizes = [each.gap.max_rel for each in mine.diff(base).gaps]
    highest = [max(sizes[: at + 1]) for at in range(len(sizes))]
    before, at = next(
        (one, at)
        for at, (one, size) in enumerate(zip(highest, sizes[1:], strict=False), 1)
        if one < size < 2 * one
    )
    diff = mine.diff(base, tolerance=before)
    assert (diff.first, diff.is_beyond) == (None, True)
    assert [each.pair.mine.number for each in diff.uncertain] == [diff.gaps[at].pair.mine.number]
    shown = text(diff, 110)
    assert "where the difference begins is not sure" in shown
    assert f"perhaps beyond it: {diff.uncertain[0].known.line}: " in shown


def faulty(form_name: str) -> Run:
    model, x = made("convolutional")
    next(fault for fault in FAULTS["convolutional"] if "norm" in fault.line).plant(model)
    return archive.run(form(model, x, form_name), x)


@pytest.mark.parametrize(
    ("mine", "base"), [("frozen", "frozen"), ("frozen", "traced"), ("scripted", "traced")]
)
def test_a_norm_that_both_runs_may_have_folded_is_named_as_such(mine: str, base: str) -> None:
    model, x = made("convolutional")
    diff = faulty(mine).diff(archive.run(form(model, x, base), x))
    assert diff.first is not None
    assert diff.may_hide_norm(diff.first) is (mine == base)
    assert comparison_facts("", "", diff)["may_hide_norm"] is (mine == base)
    assert ("or a batch normalisation that both may have folded" in text(diff, 110)) is (mine == base)


class Normed(nn.Module):
    """A layer, and a norm that freezing folds into it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.norm(self.layer(x)))


def frozen(model: Normed, x: torch.Tensor) -> Run:
    return archive.run(torch.jit.freeze(torch.jit.trace(model, x)), x)


@pytest.mark.parametrize("seed", range(3))
def test_a_folded_norm_and_its_layer_can_have_the_same_fault_bit_by_bit(seed: int) -> None:
    """So no comparison of two frozen modules tells which of both lines it is."""
    torch.manual_seed(seed)
    x, factors = torch.rand(2, 3, 8, 8), 2.0 ** torch.randint(1, 4, (4,))
    models = [Normed().eval().requires_grad_(False) for _ in range(3)]  # noqa: FBT003 (PyTorch's own)
    for model in models:
        model.load_state_dict(models[0].state_dict())
    base, layers, norms = models
    layers.layer.weight *= factors[:, None, None, None]
    norms.norm.weight *= factors
    runs = [frozen(model, x) for model in (layers, norms)]
    digests = [[result.digest for one in run.operations for result in one.results] for run in runs]
    assert digests[0] == digests[1]
    for run in runs:
        diff = run.diff(frozen(base, x))
        assert diff.first is not None
        assert diff.may_hide_norm(diff.first)


def test_a_folded_layer_has_the_line_of_the_form_that_knows_it() -> None:
    model, x = made("convolutional")
    base = archive.run(form(model, x, "exported"), x)
    next(fault for fault in FAULTS["convolutional"] if "second" in fault.line).plant(model)
    with torch.no_grad():
        frozen = torch.jit.freeze(torch.jit.trace(model, x))
    first = archive.run(frozen, x).diff(base).first
    assert first is not None
    assert first.pair.layer is not None
    assert first.layer is not None
    assert (first.pair.layer.node, first.layer) == ("conv2d_2", first.pair.mine)
    assert text_of(first.layer) == "y = self.second(y)"


# --- as text


def text(diff: ValueDiff, width: int) -> str:
    shown = comparison_text(diff, "mine.pt", "base.pt", "operation", 0)
    return "\n".join("".join(part for part, _ in line) for line in lines_of(shown, width))


@pytest.mark.parametrize("width", [80, 110, 160])
def test_the_table_of_two_runs_fits(width: int) -> None:
    lines = text(run_of(Amid, "exported").diff(run_of(Plain, "traced")), width).splitlines()
    heading = next(line for line in lines if line.startswith("line "))
    assert {"module", "operator", "SNR dB"} <= {part.strip() for part in heading.split("  ")}
    assert max(map(len, lines)) <= width
    assert [name in heading for name in ("cosine", "base")] == [width > 80] * 2
    rows = lines[lines.index(heading) + 2 : lines.index("", lines.index(heading))]
    assert len(rows) == 6


@pytest.mark.parametrize(
    ("mine", "base"), [("exported", "traced"), ("traced", "eager"), ("traced", "scripted")]
)
def test_the_first_line_has_its_text_from_the_run_that_knows_it(mine: str, base: str) -> None:
    shown = text(run_of(Plain, mine, 1.02).diff(run_of(Plain, base)), 200)
    assert "return torch.tanh(self.down(x))" in shown.partition("first line beyond the tolerance")[2]


def test_a_line_whose_text_no_run_knows_has_its_function() -> None:
    shown = text(run_of(Plain, "traced", 1.02).diff(run_of(Plain, "lite")), 200)
    assert "return torch.tanh(self.down(x))" in shown
    shown = text(run_of(Plain, "traced", 1.02).diff(run_of(Plain, "traced")), 200)
    assert ", in forward\n" in shown.partition("first line beyond the tolerance")[2]
