"""Programs of real archives are lowered, and compute what they did; or they are refused, with their line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch.utils import _pytree as pytree

from archive.backend import LoweringError, lower_to_torchscript
from tests.support.corpus import FIXTURES
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # loading warns of much

EXPORTED = FIXTURES / "exported"
NOT_LOADED = ("counter", "own", "several", "shop_protocol", "teller")
"""Programs of classes and operators that only their own process knew, several programs in one file, and one
whose pickle PyTorch loads with a log record that it cannot format."""
REFUSED = {
    "choice": "higher_order::cond is not supported",
    "maxima": "is not supported in this compiler",
    "picked": "a size, or a number, is only known when it runs",
    "regions": "higher_order::wrap_with_autocast is not supported",
    "shop_dynamic": "is symbolic; export it without dynamic shapes",
    "sized": "is symbolic; export it without dynamic shapes",
    "sums": "higher_order::scan is not supported",
    "walk": "higher_order::while_loop is not supported",
}
PLACE = re.compile(r'Source code:   File "[^"\n]+", line \d+\n')


def kind(path: Path) -> str:
    """The model of a file: several ways of exporting it are told by what follows."""
    return path.stem.removesuffix("_decomposed").removesuffix("_strict")


PROGRAMS = [path for path in sorted(EXPORTED.glob("*.pt2")) if kind(path) not in NOT_LOADED]


def test_each_kind_is_here() -> None:
    assert {kind(path) for path in PROGRAMS} >= REFUSED.keys()
    assert len(PROGRAMS) > 25


@pytest.mark.parametrize(
    "path", sampled(PROGRAMS, most=8, by=[lambda path: kind(path) in REFUSED]), ids=lambda path: path.stem
)
def test_a_program_is_lowered_or_refused(path: Path) -> None:
    program = torch.export.load(path)
    if kind(path) in REFUSED:
        with pytest.raises(LoweringError) as caught:
            lower_to_torchscript(program, "aten")
        assert REFUSED[kind(path)] in str(caught.value)
        assert PLACE.search(str(caught.value)) or "symbolic" in str(caught.value)
        return
    arguments, named = program.example_inputs
    expected = pytree.tree_leaves(program.module()(*arguments, **named))
    found = pytree.tree_leaves(lower_to_torchscript(program, "aten")(*arguments, **named))
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
