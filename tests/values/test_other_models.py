"""A fault planted in a model of transformers or timm, where they are installed, is found at its line."""

from __future__ import annotations

import copy

import pytest

pytest.importorskip("torch", exc_type=ImportError)

from tools import value_table

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # others' models warn
FORMS = ("traced", "lite", "frozen", "exported")


@pytest.mark.parametrize(
    ("package", "name", "fault"),
    [
        ("transformers", "BERT", value_table.scale),
        ("transformers", "ViT", value_table.scale),
        ("transformers", "GPT-2", value_table.epsilon),
        ("timm", "resnet", value_table.coarse),
    ],
)
def test_a_fault_is_found_at_its_line_in_each_form(package: str, name: str, fault: value_table.Fault) -> None:
    pytest.importorskip(package, exc_type=ImportError)
    of = value_table.MODELS[name]
    model, x = value_table.made(of)
    ((_, base),) = value_table.runs_of(model, x, ())
    faulty = copy.deepcopy(model)
    fault(faulty, of)
    lines = value_table.parting(faulty, model, x)
    found = {
        form: value_table.judged(run.diff(base), lines) for form, run in value_table.runs_of(faulty, x, FORMS)
    }
    assert found == dict.fromkeys(("eager", *FORMS), "found")
    assert not base.diff(base).is_beyond
