"""The tables in ``docs/reference/lowered.md`` tell what was measured; a quick part is measured here again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

from tests.support.sampling import whole_suite
from tests.zoo.catalogue import SAMPLES
from tests.zoo.measuring import line, measured, places
from tools.lowering_table import CHECKS, DATA, row_of, tables
from tools.model_data import YES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

QUICK = ["EmbeddingBag", "SSD", "TCN", "mixture of experts", "key-value cache", "ConvNeXt, exported"]
"""Models of several kinds and of all four ways, each lowered in less than half a second."""
TRACEBACK = """\
Traceback of TorchScript, serialized code (most recent call last):
  File "code/m.py", line 3, in forward
Traceback of TorchScript, original code (most recent call last):
  File "<string>", line 3, in forward
  File "model.py", line 7, in forward
        return self.layer(x)
  File "site/torch/nn/modules/linear.py", line 134, in forward
"""
TRACED = """\
Traceback of TorchScript (most recent call last):
site/torch/nn/modules/linear.py(134): forward
model.py(9): forward
main.py(2): <module>
"""


def test_the_page_has_the_tables_of_the_data() -> None:
    assert DATA.rewritten(tables(DATA.rows())) == DATA.page()
    assert list(DATA.rows()) == list(SAMPLES)


def test_all_models_lower_compute_the_same_and_fail_at_their_line() -> None:
    assert {row["model"]: [row[check] for check in CHECKS] for row in DATA.rows().values()} == {
        name: [YES] * len(CHECKS) for name in SAMPLES
    }


@whole_suite
def test_some_models_are_as_the_page_tells(tmp_path: Path) -> None:
    assert {SAMPLES[name].way for name in QUICK} == {"scripted", "traced", "effects", "exported"}
    found = measured([SAMPLES[name] for name in QUICK], tmp_path)
    known = DATA.rows()
    for name, outcome in found.items():
        row = row_of(SAMPLES[name], known[name]["version"], outcome)
        assert [row[check] for check in CHECKS] == [known[name][check] for check in CHECKS], outcome


def test_places_are_those_of_the_original_code() -> None:
    assert places(TRACEBACK) == ["model.py:7", "site/torch/nn/modules/linear.py:134"]
    assert line(places(TRACEBACK)) == "model.py:7"
    assert line(places(TRACED)) == "model.py:9"
