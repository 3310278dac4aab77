"""``inspect`` and ``symbolicate`` of exported programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import archive
from archive.container.container import member_from, new_member
from archive.describe.inspect import inspect
from archive.failures.lookups.nodes import found_nodes
from tests.support.commands import run
from tests.support.exported import EXPORTED, PROGRAMS, nodes, trees
from tests.support.zips import written

if TYPE_CHECKING:
    from pathlib import Path

SHOP = EXPORTED / "shop.pt2"


def test_a_node_leads_to_its_modules_and_lines() -> None:
    done = run("symbolicate", SHOP, "embedding_1")
    assert done.returncode == 0
    assert done.stdout.decode() == (
        "Module hierarchy:top(Shop).goods(Lookup).rows(Embedding).aten.embedding.default\n"
        "Original traceback:\n"
        'File "models/shop.py", line 42, in forward\n'
        "    b = self.price(self.goods(second))\n"
        '  File "models/shop.py", line 23, in forward\n'
        "    return self.norm(self.smooth(self.rows(ids)))\n"
        '  File "/opt/py/lib/python3.11/site-packages/torch/nn/modules/sparse.py", line 189, in forward\n'
        "    return F.embedding(\n"
    )


def test_every_node_of_every_program_is_found_by_its_key() -> None:
    for path in PROGRAMS:
        with archive.open(path) as opened:
            for name, program in opened.programs.items():
                for key, site in program.sites.items():
                    assert [node.site for node in found_nodes(opened.programs, f"{name}:{key}")] == [site]


def test_programs_whose_names_have_colons_are_found() -> None:
    with archive.open(EXPORTED / "several.pt2") as opened:
        programs = {f"a:{name}:": program for name, program in opened.programs.items()}
        for name, program in programs.items():
            for key, site in program.sites.items():
                assert [node.site for node in found_nodes(programs, f"{name}:{key}")] == [site]


def test_a_name_that_only_inner_graphs_have_is_told_of_each() -> None:
    done = run("symbolicate", EXPORTED / "choice_strict.pt2", "embedding", "cond")
    titles = [line for line in done.stdout.decode().splitlines() if line.startswith("node ")]
    assert titles == [
        "node cond.true_graph_0/cond.true_graph_0/embedding:",
        "node cond.true_graph_0/cond.false_graph_0/embedding:",
        "node cond:",
    ]


def test_a_program_may_stand_before_the_node() -> None:
    facts = json.loads(run("symbolicate", EXPORTED / "several.pt2", "steps:gru", "--json").stdout)
    (node,) = facts["symbolications"]
    assert (node["program"], node["node"], node["target"]) == ("steps", "gru", "torch.ops.aten.gru.input")
    assert [module["path"] for module in node["modules"]] == ["", "rnn"]
    assert node["frames"][0]["source"] == "return self.rnn(self.words(ids))[0][:, -1]"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("embeding_1", "no node 'embeding_1'; there are embedding_1, embedding, …"),
        ("42", "an exported program has nodes; give the name of one, like linear_3"),
    ],
)
def test_a_node_that_is_not_there_is_told_with_those_alike(asked: str, said: str) -> None:
    done = run("symbolicate", SHOP, asked)
    assert done.returncode == 1
    assert said in done.stderr.decode()


def test_a_node_without_source_is_told() -> None:
    done = run("symbolicate", EXPORTED / "regions.pt2", "exp")
    assert done.returncode == 1
    assert done.stdout.endswith(b"Original traceback:\nNone\n")
    assert b"no source is recorded for exp" in done.stderr


def test_inspect_counts_what_is_in_each_program() -> None:
    facts = json.loads(run("inspect", EXPORTED / "several.pt2", "--json").stdout)
    for name, tree in trees(EXPORTED / "several.pt2").items():
        found = list(nodes(tree))
        told = facts["programs"][name]
        assert told["nodes"] == len(found)
        assert told["traced"] == sum("stack_trace" in node["metadata"] for node in found)
        assert told["metadata_bytes"] == sum(len(json.dumps(node["metadata"])) - 2 for node in found)
    assert facts["programs"]["choice"]["graphs"] == 4


def test_inspect_of_a_program_that_is_broken_still_lists_its_files(tmp_path: Path) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(written(new_member("archive_format", b"pt2"), new_member("models/model.json", b"{}")))
    done = run("inspect", path)
    assert done.returncode == 0
    assert b"its programs are not known: models/model.json, graph_module: expected an object" in done.stdout
    assert b"archive_format" in done.stdout


def test_a_file_that_is_cut_or_of_another_kind_is_told_before_its_nodes(tmp_path: Path) -> None:
    cut, page = tmp_path / "cut.pt2", EXPORTED.parent / "kinds" / "page.pt"
    cut.write_bytes(SHOP.read_bytes()[:3000])
    for path, said in ((cut, b"copy or download the whole file again"), (page, b"a download has gone wrong")):
        done = run("symbolicate", path, "linear")
        assert done.returncode == 2
        assert said in done.stderr


def test_a_file_of_a_package_that_is_named_like_a_program_is_none(tmp_path: Path) -> None:
    source = EXPORTED.parent / "oracles" / "plain_stack.ptl"
    path = tmp_path / "named.ptl"
    with archive.open(source) as before:
        members = [member_from(record) for record in before.container.records.values()]
    path.write_bytes(written(*members, new_member("models/config.json", b"{}")))
    with archive.open(path) as opened:
        assert dict(opened.programs) == {}
        assert inspect(opened).programs == {}
    small, aside, back = tmp_path / "small.ptl", tmp_path / "model.ptdbg", tmp_path / "back.ptl"
    archive.split(path, small, aside)
    archive.join(small, aside, back)
    with archive.open(back) as joined:
        assert bytes(joined.records["models/config.json"].view()) == b"{}"


def test_nodes_and_handles_have_the_keys_of_one_report() -> None:
    shared = {"found", "module_hierarchy", "ops", "frames", "text"}
    handle = run("symbolicate", EXPORTED.parent / "oracles" / "lowered_shape.ptl", "1,26", "--json")
    node = run("symbolicate", EXPORTED / "shop.pt2", "embedding_1", "--json")
    ((of_handle,), (of_node,)) = (json.loads(done.stdout)["symbolications"] for done in (handle, node))
    assert of_handle.keys() - {"handles"} == shared
    assert of_node.keys() - {"asked", "program", "node", "target", "modules", "trace"} == shared
    assert of_node["frames"][0].keys() - {"mark"} == of_handle["frames"][0].keys()
    for one in (of_handle, of_node):
        assert one["text"].startswith(f"Module hierarchy:{one['module_hierarchy']}\n")
        assert one["module_hierarchy"].endswith(one["ops"][0])
