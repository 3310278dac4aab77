"""Nodes of an ETRecord that came out of a region, whose stack traces are of generated code."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

import pytest

import archive
from archive.failures.lookups.instructions import InstructionNodes
from tests.support.commands import run
from tests.support.etrecords import changed, inspected, log, record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXPORTED, EDGE = "exported_program", "edge_dialect_exported_program/forward"
LINES = {"aten_embedding_default": 38, "aten_embedding_default_1": 39}


def lines(file: bytes) -> dict[str, int | None]:
    """The line of the model's own frame of each node of the region."""
    with archive.open(file) as opened:
        (place,) = InstructionNodes(opened).named("0:0")
        found = {}
        for node in place.nodes:
            frames = node.site.frames.frames if node.site.frames else ()
            found[node.site.name] = next(
                (one.line for one in frames if one.file == "models/methods.py"), None
            )
        return found


def rewritten(name: str, change: Callable[[str], str]) -> bytes:
    """The record with another text in one of its programs."""
    with zipfile.ZipFile(record("region")) as source:
        text = source.read(name).decode()
    assert change(text) != text
    return changed("region", **{name: change(text).encode()})


def test_a_node_has_the_line_of_the_exported_programs_node() -> None:
    assert all(
        trace.startswith('File "<eval_with_key>') for trace in inspected("region")[0]["traces"].values()
    )
    assert lines(record("region").read_bytes()) == LINES
    done = run("symbolicate", record("region"), "aten_embedding_default_1")
    assert done.stdout.decode().splitlines()[:4] == [
        "Module hierarchy:top(Region).words(Embedding).aten.embedding.default",
        "Original traceback:",
        'File "models/methods.py", line 39, in forward',
        "    b = self.words(second)",
    ]


def test_operators_of_one_name_and_handle_are_not_told_apart() -> None:
    done = run("symbolicate", record("region"), stdin=log("region"))
    assert done.stdout == log("region")
    assert b"aten_embedding_default or edge_dialect" in done.stderr
    assert b"nothing tells which" in done.stderr


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("export_graph_id", "", "1"),
        (EXPORTED, '"torch.ops.aten.embedding.default"', '"torch.ops.aten.embedding_bag.default"'),
        (EXPORTED, '"name": "embedding', '"name": "other'),
        (EXPORTED, '"second"', '"third"'),
        (EXPORTED, '"wrap_with_set_grad_enabled"', '"another"'),
        (EDGE, "= torch.ops.aten.embedding.default(", "is torch.ops.aten.embedding.default("),
    ],
)
def test_a_node_that_is_not_proved_keeps_its_trace(name: str, old: str, new: str) -> None:
    file = rewritten(name, lambda text: text.replace(old, new) if old else text + new)
    assert lines(file)["aten_embedding_default_1"] is None


def test_a_statement_in_two_graphs_of_one_node_is_not_guessed() -> None:
    def doubled(text: str) -> str:
        tree = json.loads(text)
        (node,) = (one for one in tree["graph_module"]["graph"]["nodes"] if one["name"].startswith("wrap"))
        (held,) = (one for one in node["inputs"] if "as_graph" in one["arg"])
        again = json.loads(json.dumps(held))
        again["arg"]["as_graph"]["name"] = "other_graph"
        node["inputs"].append(again)
        return json.dumps(tree)

    assert lines(rewritten(EXPORTED, doubled)) == dict.fromkeys(LINES)


def test_a_node_is_sought_in_few_graphs() -> None:
    def many(text: str) -> str:
        tree = json.loads(text)
        (node,) = (one for one in tree["graph_module"]["graph"]["nodes"] if one["name"].startswith("wrap"))
        (held,) = (one for one in node["inputs"] if "as_graph" in one["arg"])
        for number in range(20):
            other = json.loads(json.dumps(held).replace("aten.embedding.default", "aten.relu.default"))
            other["arg"]["as_graph"]["name"] = f"other_{number}"
            node["inputs"].append(other)
        return json.dumps(tree)

    assert lines(rewritten(EXPORTED, many)) == dict.fromkeys(LINES)


def test_a_trace_that_has_a_line_of_the_model_stays() -> None:
    own = 'File \\"models/other.py\\", line 1, in forward\\n  '
    file = rewritten(EDGE, lambda text: text.replace('"File \\"<eval', f'"{own}File \\"<eval'))
    assert lines(file) == dict.fromkeys(LINES)


def test_a_broken_id_of_the_graph_is_told(tmp_path: Path) -> None:
    path = tmp_path / "broken.etrecord"
    path.write_bytes(changed("region", export_graph_id=b"{"))
    done = run("symbolicate", path, "0:0")
    assert done.returncode == 2
    assert b"export_graph_id" in done.stderr
