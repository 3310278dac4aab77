"""The fixture with effects: made again to the byte, and run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import Effectful
from tests.support.corpus import FIXTURES
from tools.make_effects import NAMES, made, model

pytestmark = pytest.mark.torch

COUNTING = FIXTURES / "effects" / "counting.pt"


@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_is_made_again_to_the_byte(name: str) -> None:
    assert made(name) == (COUNTING.parent / f"{name}.pt").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_gives_what_the_model_gives(name: str) -> None:
    eager, loaded = model(name), Effectful.load(COUNTING.parent / f"{name}.pt")
    for number in range(6):
        x = torch.full((2, 3), float(number))
        assert_equal(loaded(x), eager(x))


def assert_equal(found: Any, wanted: Any) -> None:  # noqa: ANN401
    if isinstance(wanted, dict):
        assert type(found).__name__ == type(wanted).__name__
        torch.testing.assert_close(dict(found), dict(wanted), rtol=0, atol=0, equal_nan=True)
    else:
        assert torch.equal(found, wanted)


def test_the_fixture_does_the_same_as_the_model() -> None:
    eager, loaded = model("counting"), Effectful.load(COUNTING)
    for number in range(3):
        x = torch.full((2, 3), float(number))
        assert torch.equal(loaded(x), eager(x))
    state = loaded.state.module
    assert (state.count, state.average, len(state.history)) == (eager.count, eager.average, 3)
    assert torch.equal(state.seen, eager.seen)


def test_the_page_s_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "explanation" / "effects.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    assert len(blocks) == 2
    for code in blocks:
        exec(code, names)  # noqa: S102 (as a reader runs it)
    assert names["loaded"].state.module.count == 1
