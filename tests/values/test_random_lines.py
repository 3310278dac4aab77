"""Two random small models of which one has a line more, or another line: no other line is named."""

from __future__ import annotations

import importlib.util
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch

from tests.support.sampling import sampled
from tests.values.models import form

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import nn

    from archive.debuginfo.values.gaps import ValueDiff, ValueGap

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]
ATTENTION = "y = functional.scaled_dot_product_attention(y[None], z[None], y[None])[0]"
CAUSAL = "y = functional.scaled_dot_product_attention(y[None], y[None], y[None], is_causal=True)[0]"
LOWER = "y = y.masked_fill(torch.ones(4, 4).tril() == 0, 0.1)"
UPPER = "y = y.masked_fill(torch.ones(4, 4).triu() == 0, 0.2)"
LINES = (
    *(ATTENTION, CAUSAL, LOWER),
    "y = self.layers[{n}](y)",
    "z = self.layers[{n}](z)",
    "y = self.layers[{n}](torch.cat((y, z)))[:4]",
    "y = self.norms[{n}](y)",
    "y = y * 1.5",
    "y = y + 0.25",
    "z = y * 0.7",
    "y = y + z",
    "y = y * z",
    "y = torch.tanh(y)",
    "y = torch.relu(y)",
    "y = torch.sin(y)",
    "y = torch.softmax(y, -1)",
    "y = functional.gelu(y)",
    "y = y.transpose(0, 1)",
    "y, z = z, y",
    "m = y > {n} / 4",
    "y = y.masked_fill(m, 0.3)",
)
OTHERS = (
    UPPER,
    "y = self.layers[{n}](y)",
    "y = self.norms[{n}](y)",
    "y = y * 1.25",
    "y = y + 0.125",
    "y = y - 0.3",
    "y = y + torch.ones(4)",
    "z = z * 0.5",
    "y = torch.tanh(y)",
    "y = torch.cos(y)",
    "y = torch.softmax(y, -1)",
    "y = y.flip(0)",
    "m = y > 0.1",
    "m = z < {n} / 5",
    "y = y.masked_fill(m, 0.4)",
)
FORMS = ("eager", "scripted", "traced", "frozen", "exported", "decomposed")
HEAD = """import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        self.norms = nn.ModuleList([nn.LayerNorm(4) for _ in range(4)])

    def forward(self, x):
        y, z, m = x, x, x > 0.5
"""
OF_MODULES = "/torch/nn/"
"""In the paths of PyTorch's own lines, which are all that a frozen archive knows of what its modules run."""


class Case(NamedTuple):
    """Two models.

    Attributes:
        plain: the lines of one.
        other: the line that the other one has before line ``at`` of these, or in its place.
        forms: of both.
    """

    plain: list[str]
    other: str
    at: int
    forms: tuple[str, str]
    is_changed: bool = False

    @property
    def others(self) -> list[str]:
        """The lines of the other one."""
        return [*self.plain[: self.at], self.other, *self.plain[self.at + self.is_changed :]]

    def is_right(self, found: ValueGap) -> bool:
        """Whether the line that is found is the other one, or the line whose place it has."""
        source = found.known.place.source
        assert source is not None
        if OF_MODULES in source.file:
            return any(
                "self." in line for line in (self.other, *self.plain[self.at : self.at + self.is_changed])
            )
        number = source.number - HEAD.count("\n") - 1
        if "/other/" not in source.file:
            return self.is_changed and number == self.at
        first, last = sorted((number, self.at))
        return {*self.others[first : last + 1]} == {
            self.other
        }  # of equal lines in a row, any is the other one


def drawn(seed: int) -> Case:
    """A random case."""
    chance = Random(seed)  # noqa: S311 (no secret)

    def line(lines: Sequence[str]) -> str:
        return chance.choice(lines).format(n=chance.randrange(4))

    plain = [line(LINES) for _ in range(chance.randint(2, 8))]
    at = chance.randint(0, len(plain))
    is_changed = at < len(plain) and chance.random() < 0.25
    return Case(plain, line(OTHERS), at, (chance.choice(FORMS), chance.choice(FORMS)), is_changed)


def loaded(folder: Path, lines: Sequence[str]) -> nn.Module:
    """A model of these lines, in a file."""
    folder.mkdir()
    path = folder / "net.py"
    path.write_text(HEAD + "".join(f"        {line}\n" for line in [*lines, "return y + z"]))
    spec = importlib.util.spec_from_file_location("net", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: nn.Module = module.Net().eval()
    return made


def compared(case: Case, folder: Path) -> list[ValueDiff]:
    """Each of the models beside the other; none if they compute the same."""
    plain, other = loaded(folder / "plain", case.plain), loaded(folder / "other", case.others)
    torch.manual_seed(0)
    for parameter in plain.parameters():
        parameter.data += 0.3 * torch.rand_like(parameter)
    other.load_state_dict(plain.state_dict())
    x = torch.rand(4, 4)
    with torch.no_grad():
        if torch.allclose(plain(x), other(x), rtol=1e-3, atol=1e-4):
            return []
    mine, base = (
        archive.run(form(model, x, name), x) for model, name in zip((plain, other), case.forms, strict=True)
    )
    return [mine.diff(base), base.diff(mine)]


@pytest.mark.parametrize("seed", sampled(range(200), most=10))
def test_no_line_but_the_other_one_is_named(seed: int, tmp_path: Path) -> None:
    case = drawn(seed)
    for diff in compared(case, tmp_path):
        assert diff.is_beyond
        assert diff.first is None or case.is_right(diff.first)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Case(["y = y + z", ATTENTION], "y = y + torch.ones(4)", 2, ("exported", "decomposed")),
            id="after what is decomposed, at another line",
        ),
        pytest.param(
            Case(
                [
                    *("y = torch.tanh(y)", "z = self.layers[3](z)", "y, z = z, y", LOWER),
                    *("y = y + 0.25", "y = self.layers[1](y)", "z = y * 0.7"),
                ],
                *("y = self.layers[1](y)", 7, ("eager", "frozen")),
            ),
            id="after one that only that run has, too, in no pair",
        ),
        pytest.param(
            Case([LOWER, "y = torch.sin(y)"], "y = y + 0.125", 2, ("scripted", "decomposed")),
            id="beside operations that others use, too",
        ),
        pytest.param(
            Case(
                [
                    *("y = y * z", "y = y + z", "y = y * 1.5", "y = y + 0.25", "y = self.norms[0](y)"),
                    *("y = torch.tanh(y)", "y, z = z, y", "y = self.layers[2](y)"),
                ],
                *("z = z * 0.5", 3, ("scripted", "frozen"), True),
            ),
            id="in the place of one that follows from something else",
        ),
    ],
)
def test_the_other_line_is_named(case: Case, tmp_path: Path) -> None:
    diffs = compared(case, tmp_path)
    assert len(diffs) == 2
    for diff in diffs:
        assert diff.first is not None
        assert case.is_right(diff.first)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Case(["y, z = z, y", ATTENTION], "y = y + torch.ones(4)", 1, ("traced", "decomposed")),
            id="before what is decomposed, whose line has its number",
        ),
        pytest.param(
            Case([LOWER, "y = y * 1.5", CAUSAL], "y = torch.cos(y)", 2, ("scripted", "decomposed")),
            id="before what is decomposed, and used for it alone",
        ),
        pytest.param(
            Case(
                [CAUSAL, "z = self.layers[1](z)", "y = y + z"],
                "y = y + 0.125",
                3,
                ("decomposed", "scripted"),
            ),
            id="operations that are used otherwise are no pair",
        ),
        pytest.param(
            Case(
                [
                    LOWER,
                    *["y = torch.relu(y)"] * 2,
                    "y = torch.softmax(y, -1)",
                    "y = torch.relu(y)",
                    "y = y * z",
                ],
                *("y = torch.softmax(y, -1)", 0, ("exported", "frozen")),
            ),
            id="operations that are given something else are no pair",
        ),
        pytest.param(
            Case(
                ["m = y > 2 / 4", "y = y.transpose(0, 1)"],
                *("y = y.masked_fill(m, 0.4)", 2, ("traced", "traced")),
            ),
            id="a line that both have, and only one uses",
        ),
        *(
            pytest.param(
                Case(
                    [*("y = y + 0.25", "y = y.transpose(0, 1)"), *plain],
                    *("m = y > 0.1", 1, forms, True),
                ),
                id=f"after one that only shows elements otherwise: {' '.join(forms)}, {len(plain)}",
            )
            for plain in ([], ["z = y * 0.7"], ["m = y > 2 / 4", "y = self.layers[1](y)"])
            for forms in (("scripted", "eager"), ("exported", "frozen"), ("traced", "decomposed"))
        ),
    ],
)
def test_no_wrong_line_is_named(case: Case, tmp_path: Path) -> None:
    diffs = compared(case, tmp_path)
    assert len(diffs) == 2
    assert all(diff.is_beyond and (diff.first is None or case.is_right(diff.first)) for diff in diffs)


def test_a_line_like_a_part_of_what_is_decomposed_before_it_is_not_taken_for_that(tmp_path: Path) -> None:
    """Attention has a softmax of its own, and operations after it."""
    plain = ["y = y + z", "y = torch.relu(y)", CAUSAL, "y = functional.gelu(y)"]
    case = Case(plain, "y = torch.softmax(y, -1)", 3, ("decomposed", "scripted"))
    diffs = compared(case, tmp_path)
    assert len(diffs) == 2
    assert all(diff.is_beyond for diff in diffs)
    assert not any(diff.first and not case.is_right(diff.first) for diff in diffs)
