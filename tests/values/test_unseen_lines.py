"""What a run has not seen is blamed on no line, nor on the run that has seen it."""

from __future__ import annotations

import io
import linecache
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn
from torch._higher_order_ops import map as over_rows

from archive.backend import lower
from archive.backend.aten.backend import Aten
from archive.backend.values.comparing import compared
from archive.backend.values.observing import KeptValues, Recorder
from archive.debuginfo.profiles.places import ModuleLevel, OperationPlace
from archive.debuginfo.source_lines import SourceLine
from archive.render.fitted_table import lines_of
from archive.render.value_facts import comparison_facts
from archive.render.values import comparison_text
from tests.backend.partitioned import Silent, backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive import Run
    from archive.debuginfo.values.gaps import ValueDiff
    from archive.debuginfo.values.observed import Observed

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much

LINES = ("up", "branch", "loop", "join", "again")


class Layers(nn.Module):
    """Layers of several widths, of which some are used at several lines, or several times at one."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.side = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(8, 4)
        self.again = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.up(x))  # up
        y = torch.sigmoid(self.side(x))  # branch
        for _ in range(2):
            y = torch.tanh(self.again(y))  # loop
        x = self.down(x) + y  # join
        return torch.tanh(self.again(x))  # again


class Unrecorded(nn.Module):
    """A part that export keeps as a graph of its own, which no run looks into."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))  # first
        if torch.compiler.is_compiling():
            x = over_rows(lambda row: torch.tanh(self.second(row)), x)
        else:
            x = torch.tanh(self.second(x))  # second
        return torch.tanh(self.last(x))  # last


FIRST_USES = {"up": "up", "side": "branch", "again": "loop", "down": "join"}
X = torch.rand(3, 4, generator=torch.Generator().manual_seed(1))


def model_of(kind: Callable[[], nn.Module], changed: str) -> nn.Module:
    """A model, one of whose layers may be changed."""
    torch.manual_seed(0)
    model = kind().eval()
    if changed:
        model.get_submodule(changed).bias.data += 0.25
    return model


@cache
def base_of(changed: str, *, scripted: bool = True) -> Run:
    model = model_of(Layers, changed)
    return archive.run(torch.jit.script(model) if scripted else model, X)


def line_of(stack: str) -> str:
    """The name of the model's line in a node's stack trace."""
    return next((name for name in LINES if f"  # {name}\n" in f"{stack}\n"), "")


@cache
def lowered(lines: tuple[str, ...], *, with_values: bool, changed: str = "") -> Run:
    """A run of the program whose nodes of some lines are lowered."""
    program = torch.export.export(model_of(Layers, changed), (X,))
    runtime = Aten if with_values else Silent

    def supports(node: torch.fx.Node) -> bool:
        return line_of(node.meta.get("stack_trace", "")) in lines

    with backend(runtime=runtime, supports=supports) as name:
        return run_of(lower(program, name))


def run_of(program: torch.export.ExportedProgram) -> Run:
    file = io.BytesIO()
    torch.export.save(program, file)
    return archive.run(file.getvalue(), X)


def named(diff: ValueDiff) -> str:
    """The line where a difference begins; "" if that is not sure."""
    source = diff.first.known.place.source if diff.first is not None else None
    return linecache.getline(source.file, source.number).strip().partition("# ")[2] if source else ""


CHOICES = [
    tuple(line for line, is_lowered in zip(LINES, chosen, strict=True) if is_lowered)
    for chosen in product((False, True), repeat=len(LINES))
    if any(chosen)
]


@pytest.mark.parametrize("lines", CHOICES, ids="+".join)
def test_lines_that_a_backend_gives_no_values_of_are_blamed_on_no_other(lines: tuple[str, ...]) -> None:
    run = lowered(lines, with_values=False)
    assert run.unseen
    for scripted in (False, True):
        base = base_of("", scripted=scripted)
        for same in (run.diff(base), base.diff(run)):
            assert not same.beyond
            assert not same.is_beyond
        for changed, line in FIRST_USES.items():
            other = base_of(changed, scripted=scripted)
            for diff in (run.diff(other), other.diff(run)):
                assert diff.is_beyond
                assert named(diff) in {"", line}, changed
                assert all(each.pair.mine.line == each.pair.base.line for each in diff.gaps)
                assert all(
                    each.pair.mine.results[0].shape == each.pair.base.results[0].shape for each in diff.gaps
                )


@pytest.mark.parametrize(("changed", "line"), FIRST_USES.items())
def test_a_line_is_named_where_all_that_comes_before_it_is_seen(changed: str, line: str) -> None:
    earlier = LINES[: LINES.index(line)]
    other = base_of(changed)
    found = {lines: named(lowered(lines, with_values=False).diff(other)) for lines in CHOICES}
    assert {found[lines] for lines in CHOICES if line not in lines} <= {"", line}
    after = [lines for lines in CHOICES if not {*earlier, line} & {*lines}]
    assert all(found[lines] == line for lines in after)
    assert line in found.values()


@pytest.mark.parametrize("lines", [LINES, ("up", "branch"), ("loop",), ("branch", "join")], ids="+".join)
def test_with_values_of_the_backend_the_line_is_the_changed_one(lines: tuple[str, ...]) -> None:
    run = lowered(lines, with_values=True)
    for changed, line in FIRST_USES.items():
        assert named(run.diff(base_of(changed))) == line


@pytest.mark.parametrize("pair", [(CHOICES[-1], CHOICES[4]), (CHOICES[11], CHOICES[20])], ids=str)
def test_two_programs_that_hide_other_lines_are_not_mixed_up(pair: tuple[tuple[str, ...], ...]) -> None:
    mine, base = (lowered(lines, with_values=False) for lines in pair)
    assert not mine.diff(base).beyond
    for changed, line in FIRST_USES.items():
        diff = mine.diff(lowered(pair[1], with_values=False, changed=changed))
        assert named(diff) in {"", line}
        assert diff.is_beyond


def test_what_may_be_to_blame_is_said_not_to_be_seen() -> None:
    diff = lowered(LINES, with_values=False).diff(base_of("side"))
    assert diff.may_be_unseen
    assert diff.largest_drop is None
    text = "\n".join(
        "".join(part for part, _ in line)
        for line in lines_of(comparison_text(diff, "mine.pt2", "base.pt", "operation", 0), 110)
    )
    assert "where the difference begins is not sure; it may be in what was not seen" in text
    assert "which only" not in text
    assert "only in base.pt" not in text


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("changed", ["first", "second", "last"])
def test_graphs_that_no_run_looks_into_are_not_only_in_the_other_run(changed: str, *, traced: bool) -> None:
    run = run_of(torch.export.export(model_of(Unrecorded, ""), (X,)))
    assert run.unseen["inner graphs"]
    model = model_of(Unrecorded, changed)
    other = archive.run(torch.jit.trace(model, X) if traced else model, X)
    for diff in (run.diff(other), other.diff(run)):
        assert diff.is_beyond
        assert diff.first is None or (changed == "first" and diff.first.known.place.module == "first")
        assert all(each.pair.extra is None for each in diff.gaps)


def noted(values: KeptValues, seen: Sequence[int], lines: Sequence[int], factor: float) -> Observed:
    """A run of a chain of nodes, of which a device has noted some."""
    recorder, places = Recorder("ExecuTorch", values), []
    recorder.observed.program = "program"
    given = X
    recorder.note_inputs(given)
    for number, line in enumerate(lines):
        made = given * factor
        if number in seen:
            recorder.note("aten::mul", (), given, made)
            source = SourceLine("net.py", line, "")
            top = ModuleLevel("top(Net)", "")
            places.append((OperationPlace((top,), "", source, source, "aten::mul"), f"mul_{number}"))
        given = made
    recorder.note_outputs(given)
    if len(seen) < len(lines):
        recorder.observed.unseen["nodes inside of a backend"] = len(lines) - len(seen)
    return recorder.finish(places)


@pytest.mark.parametrize(
    ("seen", "lines", "is_named"),
    [
        ((0, 1, 2), (1, 2, 3), True),
        ((2,), (1, 2, 3), False),
        ((1, 2), (1, 2, 3), False),
        ((0, 2), (1, 2, 3), True),  # the first is seen
        ((2,), (3, 3, 3), True),  # what is not seen is of its line
        ((2,), (1, 3, 3), False),
    ],
)
def test_a_node_after_others_that_a_device_has_not_noted_is_not_sure(
    seen: Sequence[int], lines: Sequence[int], *, is_named: bool
) -> None:
    values = KeptValues()
    whole = noted(values, (0, 1, 2), lines, 1.0)
    for mine, base in ((noted(values, seen, lines, 1.5), whole), (whole, noted(values, seen, lines, 1.5))):
        diff = compared(mine, values, base, values)
        assert diff.first_sure is not None
        assert (diff.first is not None) is is_named
        assert diff.may_be_unseen is not is_named
        facts = comparison_facts("", "", diff)
        assert (facts["may_be_unseen"], facts["first"] is None) == (not is_named, not is_named)
