"""Every operation of a run has its node in the graph that is drawn of the same file, in each form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.app.model_explorer.drawing import graphs_of
from archive.debuginfo.profiles.places import node_id

pytest.importorskip("torch", exc_type=ImportError)

from tests.support.sampling import crossed
from tests.values.models import CASES, FORMS, form, made

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]
SAVED: Sequence[str] = [each for each in FORMS if each != "eager"]


@pytest.mark.parametrize(("name", "form_name"), crossed(CASES, SAVED, most=14))
def test_each_operation_has_a_node(name: str, form_name: str) -> None:
    model, x = made(name)
    file = form(model, x, form_name)
    with archive.run(file, x, keep=False) as run, archive.open(file) as opened:
        nodes = {each for graph in graphs_of(opened) for each in graph.nodes}
        ids = {node_id(each.place, each.op, each.key) for each in run.operations}
    assert ids
    assert ids <= nodes


def test_a_notebook_shows_the_lines_and_operators_of_a_run() -> None:
    model, x = made("transformer")
    with archive.run(form(model, x, "scripted"), x, keep=False) as run:
        shown = run._repr_html_()
    assert shown.startswith("<div>TorchScript: ")
    assert "aten::linear" in shown
    assert run.operations[0].line.rpartition("/")[2] in shown
