"""What of TorchScript's language can be lowered: the table of docs/reference/lowered.md."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
from torch.utils._pytree import tree_leaves

from archive.backend import Delegate, LoweringError, lower, lowered_archive
from tests.backend.language_models import PARTS, DictsOfPairs, X
from tests.backend.machines import same

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backend.language_models import Part

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "lowered.md"
ROW = re.compile(r"^\| (?P<words>.+) \| (?P<torchscript>yes|no) \| (?P<lite>yes|no) \|$", re.MULTILINE)


def equal(runs: Callable[..., Any], part: Part) -> bool:
    """Whether three calls give what the scripted model gives; a delegate gives tuples for named ones."""
    model = torch.jit.script(part.model())
    return all(
        same(tree_leaves(runs(*part.arguments)), tree_leaves(model(*part.arguments))) for _ in range(3)
    )


def measured(part: Part) -> tuple[str, str]:
    """Whether a part of the language runs in stock TorchScript, and in the stock lite interpreter."""
    if part.refused:
        with pytest.raises(LoweringError) as caught:
            lower(part.model(), "aten")
        before, mark, _ = str(caught.value).partition(" <--- HERE")
        assert mark
        assert part.refused in before
        return "no", "no"
    lowered = lower(part.model(), "aten")
    loaded = torch.jit.load(io.BytesIO(lowered_archive(lowered)))
    assert equal(Delegate.of(lowered), part)
    assert equal(loaded, part)
    try:
        data = lowered_archive(lowered, lite=True)
    except LoweringError:
        return "yes", "no"
    assert equal(torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data)), part)
    return "yes", "yes"


def test_the_table_of_the_page_is_what_works() -> None:
    rows = {row["words"]: (row["torchscript"], row["lite"]) for row in ROW.finditer(PAGE.read_text("utf-8"))}
    assert rows == {part.words: measured(part) for part in PARTS}


def test_an_ordered_dict_of_pairs_runs_in_the_lite_interpreter_only_lowered() -> None:
    model = torch.jit.script(DictsOfPairs())
    unlowered = io.BytesIO(model._save_to_buffer_for_lite_interpreter())
    with pytest.raises(RuntimeError, match="INTERNAL ASSERT FAILED"):
        torch.jit.mobile._load_for_lite_interpreter(unlowered)(X, 2)
    data = lowered_archive(lower(model, "aten"), lite=True)
    for times in (0, 1, 5):
        found = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data))(X, times)
        expected = model(X, times)
        assert [list(one) for one in found] == [list(one) for one in expected]
        assert same(tree_leaves(found), tree_leaves(expected))
