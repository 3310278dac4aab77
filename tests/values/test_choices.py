"""Truth values and masks: a comparison may be where it begins, and a mask may say what a flag does."""

from __future__ import annotations

import copy
import linecache
from typing import TYPE_CHECKING

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn
from torch.nn import functional

from archive.backend.values.masks import hidden
from tests.support.sampling import name_of
from tests.values.models import FORMS, form

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.debuginfo.values.gaps import ValueDiff, ValueGap

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]
SDPA, FLASH = "aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention_for_cpu"


def text_of(found: ValueGap | None) -> str:
    if found is None:
        return ""
    source = found.known.place.source
    assert source is not None
    return linecache.getline(source.file, source.number).strip()


# --- comparisons


class Comparing(nn.Module):
    """Hides what is larger than a limit."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.limit: float = 0.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.up(x))
        large = y > self.limit  # compares
        negated = torch.logical_not(large)
        z = y * 2.0
        return torch.sin(z.masked_fill(negated, 0.1))


class Choosing(Comparing):
    """Takes the larger one of two that are nearly equal."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.up(x))
        largest = torch.stack((y, y + self.limit * 1e-6)).argmax(0, keepdim=True)
        return torch.cos(torch.stack((y, y + 2.0)).gather(0, largest) * 0.5)


class Returning(Comparing):
    """What is compared is all that is returned."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.up(x))
        return y > self.limit  # compares


def compared(kind: Callable[[], Comparing], forms: tuple[str, str], limit: float, noise: float) -> ValueDiff:
    torch.manual_seed(0)
    model, x = kind().eval(), torch.rand(3, 4)
    faulty = copy.deepcopy(model)
    faulty.limit = limit
    faulty.up.bias.data += noise
    runs = [archive.run(form(each, x, name), x) for each, name in zip((faulty, model), forms, strict=True)]
    return runs[0].diff(runs[1], tolerance=1e-3)


@pytest.mark.parametrize("kind", [Comparing, Returning])
@pytest.mark.parametrize("form_name", FORMS)
def test_a_comparison_that_differs_is_where_it_begins(kind: Callable[[], Comparing], form_name: str) -> None:
    diff = compared(kind, (form_name, "eager"), 0.3, 0.0)
    assert diff.is_beyond
    assert text_of(diff.first).endswith("# compares")
    back = compared(kind, ("eager", form_name), 0.3, 0.0)
    assert text_of(back.first).endswith("# compares")


@pytest.mark.parametrize("forms", [("eager", "scripted"), ("exported", "eager")], ids=name_of)
@pytest.mark.parametrize("kind", [Comparing, Choosing, Returning])
def test_what_noise_may_have_changed_is_not_sure(
    kind: Callable[[], Comparing], forms: tuple[str, str]
) -> None:
    diff = compared(kind, forms, -0.1 if kind is Choosing else 0.3, 1e-5)
    assert diff.is_beyond
    assert diff.first is None


# --- masks


class Attending(nn.Module):
    """Attention with a flag in eager PyTorch, and with a mask in other forms, as models of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.scale, self.shift = 0.5, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(x)
        mask = None
        if torch.jit.is_tracing() or torch.compiler.is_exporting():
            place = torch.arange(y.shape[-2]) + self.shift  # masks
            mask = place[None] <= torch.arange(y.shape[-2])[:, None]
        hides_later = mask is None
        z = functional.scaled_dot_product_attention(
            *(y, y, torch.sin(y)), attn_mask=mask, is_causal=hides_later, scale=self.scale
        )
        return torch.tanh(z)


def attending(forms: tuple[str, str], **changed: float) -> ValueDiff:
    torch.manual_seed(0)
    model, x = Attending().eval(), torch.rand(2, 2, 5, 4)
    faulty = copy.deepcopy(model)
    for name, value in changed.items():
        setattr(faulty, name, value)
    runs = [archive.run(form(each, x, name), x) for each, name in zip((faulty, model), forms, strict=True)]
    return runs[0].diff(runs[1])


MASKED = [("eager", "traced"), ("exported", "eager"), ("decomposed", "eager"), ("eager", "decomposed")]


@pytest.mark.parametrize("forms", MASKED, ids=name_of)
def test_a_mask_that_says_what_a_flag_does_is_not_blamed(forms: tuple[str, str]) -> None:
    assert not attending(forms).is_beyond
    assert text_of(attending(forms, scale=0.6).first).startswith(
        ("z = functional.scaled_dot_product_attention(", "*(y, y, torch.sin(y))")
    )


@pytest.mark.parametrize("forms", [("exported", "eager"), ("decomposed", "eager")], ids=name_of)
def test_attention_is_not_blamed_for_its_mask(forms: tuple[str, str]) -> None:
    diff = attending(forms, shift=1)
    assert diff.is_beyond
    assert diff.first is None or "# masks" in text_of(diff.first)


Q = torch.rand(1, 2, 3, 4)
K = torch.rand(1, 2, 5, 4)
LATER = torch.ones(3, 5, dtype=torch.bool).tril()


def floats(seen: torch.Tensor, least: float) -> torch.Tensor:
    return torch.zeros(seen.shape).masked_fill(~seen, least)


@pytest.mark.parametrize(
    ("op", "rest", "named", "expected"),
    [
        (SDPA, (), {}, "nothing"),
        (SDPA, (None, 0.0, True), {}, "later"),
        (SDPA, (), {"is_causal": True, "scale": 0.3}, "later"),
        (SDPA, (LATER,), {}, "later"),
        (SDPA, (LATER.expand(1, 2, 3, 5),), {}, "later"),
        (SDPA, (torch.ones(3, 5, dtype=torch.bool),), {}, "nothing"),
        (SDPA, (torch.zeros(1, 5),), {}, "nothing"),
        (SDPA, (floats(LATER, float("-inf")),), {}, "later"),
        (SDPA, (floats(LATER, torch.finfo(torch.float32).min),), {}, "later"),
        (SDPA, (floats(LATER, -1e4),), {}, None),
        (SDPA, (LATER.logical_not(),), {}, None),
        (SDPA, (torch.ones(3, 5, dtype=torch.bool).tril(1),), {}, None),
        (FLASH, (0.0, True), {}, "later"),
        (FLASH, (0.0, False), {"attn_mask": floats(LATER, float("-inf"))}, "later"),
        (FLASH, (0.0, False), {"attn_mask": torch.full((3, 5), 0.5)}, None),
        ("aten::linear", (), {}, None),
    ],
)
def test_what_attention_hides(
    op: str, rest: Sequence[object], named: dict[str, object], expected: str | None
) -> None:
    found = hidden(op, ((Q, K, K, *rest), named))
    assert (found and found[0]) == expected
    if found is not None:  # what it follows from is all but the mask
        tensors = [each for each in found[1] if isinstance(each, torch.Tensor)]
        assert [each is of for each, of in zip(tensors, (Q, K, K), strict=True)] == [True] * 3


def test_arguments_that_are_not_known_hide_nothing_that_is_known() -> None:
    assert hidden(SDPA, ()) is None
    assert hidden(SDPA, ((object(), Q, K), {})) is None
