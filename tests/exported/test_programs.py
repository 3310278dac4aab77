"""Programs of ``.pt2`` archives: their nodes, scopes and releases, and what is no program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.base.errors import ArchiveError, LimitError
from archive.container.container import new_member
from archive.formats.exported.program import MAX_SCOPES, Program
from tests.support.exported import EXPORTED, PROGRAMS, nodes, trees
from tests.support.sampling import sampled
from tests.support.zips import written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_all_nodes_are_there_in_the_order_of_the_file(path: Path) -> None:
    with archive.open(path) as opened:
        assert list(opened.programs) == list(trees(path))
        for name, tree in trees(path).items():
            sites = opened.programs[name].sites.values()
            assert [site.name for site in sites] == [node["name"] for node in nodes(tree)]
            assert [site.target for site in sites] == [node["target"] for node in nodes(tree)]
            assert [site.metadata for site in sites] == [node["metadata"] for node in nodes(tree)]


def test_a_site_says_what_pytorch_recorded() -> None:
    with archive.open(EXPORTED / "shop.pt2") as opened:
        program = opened.programs["model"]
        site = program.sites["embedding_1"]
    assert program.release == "2.13.0+cpu"
    assert site.frames is not None
    assert [frame.line for frame in site.frames.frames] == [42, 23, 189]
    assert [one.path for one in site.modules] == ["", "goods", "goods.rows"]
    assert site.function == ("embedding_2", "function.embedding")
    assert site.trace is not None
    assert site.trace.startswith('File "models/shop.py", line 42, in forward\n')


def test_names_are_unique_in_their_scope() -> None:
    with archive.open(EXPORTED / "choice_strict.pt2") as opened:
        program = opened.programs["model"]
    same = [key for key, site in program.sites.items() if site.name == "embedding"]
    assert same == [
        "cond.true_graph_0/cond.true_graph_0/embedding",
        "cond.true_graph_0/cond.false_graph_0/embedding",
    ]
    assert [program.sites[key].holder for key in same] == ["cond.true_graph_0/cond"] * 2
    assert ["/".join(map(str, path)) for path in program.scopes] == [
        "cond.true_graph_0",
        "cond.true_graph_0/cond.true_graph_0",
        "cond.true_graph_0/cond.false_graph_0",
        "cond.false_graph_0",
    ]


def test_several_programs_are_parsed_one_by_one() -> None:
    with archive.open(EXPORTED / "several.pt2") as opened:
        assert list(opened.programs) == ["shop", "choice", "steps"]
        assert opened.programs["steps"] is opened.programs["steps"]
        with pytest.raises(KeyError):
            opened.programs["model"]


def node(name: object = "a", **changed: object) -> dict[str, Any]:
    return {"target": "f", "inputs": [], "outputs": [], "metadata": {}, "name": name, **changed}


def program(*found: object) -> dict[str, Any]:
    return {"graph_module": {"graph": {"nodes": list(found)}}}


def holding(graph: object) -> dict[str, Any]:
    return node("cond", inputs=[{"name": "", "arg": {"as_graph": {"name": "g", "graph": graph}}, "kind": 1}])


@pytest.mark.parametrize(
    ("tree", "place", "found"),
    [
        ([], "", "a list"),
        ({}, "graph_module", "nothing"),
        ({"graph_module": {"graph": 3}}, "graph_module.graph", "a number"),
        (program(None), "graph_module.graph.nodes[0]", "nothing"),
        (program(node(name=3)), "graph_module.graph.nodes[0].name", "a number"),
        (program(node(), node(target=None)), "graph_module.graph.nodes[1].target", "nothing"),
        (program(node(metadata=[])), "graph_module.graph.nodes[0].metadata", "a list"),
        (
            program(node(metadata={"stack_trace": True})),
            "graph_module.graph.nodes[0].metadata.stack_trace",
            "true or",
        ),
        (program(node(inputs={})), "graph_module.graph.nodes[0].inputs", "an object"),
        (program(holding("x")), "graph_module.graph.nodes[0].inputs[0].arg.as_graph.graph", "a text"),
        (program(node(), node()), "graph_module.graph.nodes[1]", "'a'"),
    ],
)
def test_what_is_no_program_is_told_by_its_json_path(tree: object, place: str, found: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        assert Program.of("model", tree).sites
    assert caught.value.place == place or not place
    assert f"found {found}" in str(caught.value)


def test_graphs_are_not_nested_without_end() -> None:
    graph: dict[str, Any] = {"nodes": [node()]}
    for _ in range(MAX_SCOPES + 1):
        graph = {"nodes": [holding(graph)]}
    with pytest.raises(LimitError, match="nested graphs"):
        assert Program.of("model", {"graph_module": {"graph": graph}}).sites


def opened(json_text: bytes) -> Program:
    return archive.open(saved(json_text)).programs["model"]


def saved(json_text: bytes) -> bytes:
    return written(new_member("archive_format", b"pt2"), new_member("models/model.json", json_text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "character 0: expected JSON"),
        (b'{"a": \xff}', "byte 6: expected UTF-8"),
        (b"[" * 200_000, "values nested too deeply"),
        (b"1" * 5000, "Exceeds the limit"),
        (json.dumps([1]).encode(), "expected an object, found a list"),
    ],
)
def test_json_that_is_broken_is_told_with_its_record(text: bytes, said: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        opened(text)
    assert "models/model.json" in str(caught.value)
    assert said in str(caught.value)


def test_json_costs_what_its_size_allows() -> None:
    text = b"[" + b"{}," * 1_000_000 + b"{}]"
    with pytest.raises(LimitError, match="JSON values"):
        archive.open(saved(text), limits=archive.Limits(memory=1 << 26)).programs["model"]
