"""Redacted programs and ETRecords: notes, ids, JSON of any layout; the same nodes, lines and handles."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import archive
from tests.support import halves
from tests.support.canaries import rewritten
from tests.support.commands import run
from tests.support.exported import ETRECORDS, EXPORTED, log, nodes, record
from tests.support.sampling import sampled
from tests.support.scanner import holds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


NOTED, SHOP = EXPORTED / "noted.pt2", EXPORTED / "shop_strict.pt2"
MODEL = "models/model.json"


def redacted(source: Path | bytes, **choices: Any) -> halves.Redacted:  # noqa: ANN401
    made = halves.redacted(source, **choices)
    assert halves.joined(made.out, made.companion)[1] == made.said.exact
    return made


def edited(path: Path, edit: Callable[[dict[str, Any]], None], **layout: Any) -> bytes:  # noqa: ANN401
    """An archive whose program is another one."""

    def change(name: str, data: bytes) -> bytes:
        if name != MODEL:
            return data
        tree = json.loads(data)
        edit(tree)
        return json.dumps(tree, **layout).encode()

    return rewritten(path.read_bytes(), change)


def program(data: bytes) -> Any:  # noqa: ANN401 (JSON)
    with archive.open(data) as opened:
        return json.loads(bytes(opened.records[MODEL].view()))


def metadata(data: bytes, key: str) -> list[str]:
    return [node["metadata"][key] for node in nodes(program(data)) if key in node["metadata"]]


def test_notes_are_free_text_and_go_with_all_source_text() -> None:
    assert len(metadata(NOTED.read_bytes(), "custom")) == 2
    for choice, left in (("keep", 2), ("lines", 2), ("none", 0)):
        assert len(metadata(redacted(NOTED, text=choice, inputs=False)[0], "custom")) == left
    assert not holds(redacted(NOTED, text="none")[0], "stage")


def test_paths_in_all_metadata_go() -> None:
    path, windows = "/home/ann lee/net/notes.txt", r"C:\Users\ann\net\notes.txt"

    def edit(tree: dict[str, Any]) -> None:
        one, other = list(nodes(tree))[:2]
        one["metadata"]["custom"] = json.dumps({"see": f"{path}, {windows}", "deep": [[{path: 1}]]})
        other["metadata"]["mine"] = f"at {path}"
        other["metadata"]["from_node"] = json.dumps([{"pass_name": windows}])
        tree["graph_module"]["metadata"] = {"custom": json.dumps({"home": "/home/ann lee/net/b.txt"})}

    out, _, facts = redacted(edited(NOTED, edit), paths="basename")
    assert (facts.is_clean, facts.sought["path"]) == (True, 4)
    assert [text for text in ("home/ann", "lee", "Users") if holds(out, text)] == []
    assert json.loads(metadata(out, "custom")[0]) == {
        "see": "notes.txt, notes.txt",
        "deep": [[{"notes.txt": 1}]],
    }
    assert metadata(out, "mine") == ["at notes.txt"]
    assert program(out)["graph_module"]["metadata"] == {"custom": '{"home": "b.txt"}'}
    out, _, _ = redacted(edited(NOTED, edit), paths="basename", text="none")
    assert metadata(out, "mine") == []
    assert program(out)["graph_module"]["metadata"] == {}


def test_names_of_functions_that_a_person_typed_become_hashes_too() -> None:
    def type_in(tree: dict[str, Any]) -> None:
        for node in nodes(tree):
            node["metadata"] = {"stack_trace": '  File "<stdin>", line 3, in secret_gate\n'}

    out = redacted(edited(SHOP, type_in), names="hash", paths="none").out
    assert all(", in a" in trace for trace in metadata(out, "stack_trace"))


def test_all_else_stays_as_it_was() -> None:
    before, after = (program(data) for data in (SHOP.read_bytes(), redacted(SHOP, paths="basename")[0]))
    for tree in (before, after):
        for node in nodes(tree):
            node["metadata"].pop("stack_trace", None)
    assert before == after


def test_ids_of_a_run_are_numbered_anew() -> None:
    addresses = re.compile(r"\b\d{12,}\b|0x[0-9a-f]{9,}")
    source = EXPORTED / "shop_strict_decomposed.pt2"
    assert addresses.search(json.dumps(program(source.read_bytes())))
    out, _, facts = redacted(source, preset="publish", partial=True)
    assert not addresses.search(json.dumps(program(out)))
    assert facts.exact


@pytest.mark.parametrize("layout", [{"indent": 1}, {"ensure_ascii": False}])
def test_a_program_that_another_writer_laid_out_is_redacted_too(layout: dict[str, Any]) -> None:
    def edit(tree: dict[str, Any]) -> None:
        next(nodes(tree))["metadata"]["custom"] = '{"by": "zoë"}'

    source = edited(SHOP, edit, **layout)
    out, companion, facts = redacted(source, paths="none", text="none")
    assert facts.is_clean
    assert facts.redacted_id != facts.archive_id
    assert not holds(out, "site-packages")
    with archive.open(out) as opened:
        assert opened.programs.whole == ()
    with archive.open(out, companion=companion) as opened, archive.open(source) as original:
        assert bytes(opened.records[MODEL].view()) == bytes(original.records[MODEL].view())
    assert archive.digest(out) == archive.digest(source)


@pytest.mark.parametrize("name", sampled(ETRECORDS, most=4))
def test_instructions_of_an_etrecord_lead_to_the_same_lines(name: str) -> None:
    path = record(name)
    out, companion, facts = redacted(path, preset="publish", partial=True)
    assert (facts.is_clean, facts.unread, facts.exact) == (True, (), True)
    assert [text for text in ("/opt/py", "self.", "return ") if holds(out, text)] == []
    with archive.open(path) as before, archive.open(out) as after:
        assert before.root == after.root == ""
        for one in ("debug_handle_map", "delegate_map", "instruction_id_to_num_outs_map"):
            assert bytes(before.records[one].view()) == bytes(after.records[one].view())
        for program, other in zip(before.programs.values(), after.programs.values(), strict=True):
            for site, twin in zip(program.sites.values(), other.sites.values(), strict=True):
                assert (site.key, site.modules[-1:]) == (twin.key, twin.modules[-1:]) or "@" in str(
                    site.metadata
                )
                assert site.metadata.get("debug_handle") == twin.metadata.get("debug_handle")
                frames = [
                    [(one.line, one.function) for one in (each.frames.frames if each.frames else ())]
                    for each in (site, twin)
                ]
                assert frames[0] == frames[1]
    with zipfile.ZipFile(io.BytesIO(out)) as opened:
        assert {one.date_time for one in opened.infolist()} == {(1980, 0, 0, 0, 0, 0)}
    assert archive.digest(out) == archive.digest(path)
    assert halves.joined(out, companion) == (path.read_bytes(), True)


def test_logs_of_the_runtime_are_explained_as_before_with_the_companion(tmp_path: Path) -> None:
    out, companion = tmp_path / "shop.etrecord", tmp_path / "shop.ptdbg"
    words = ["--for", "vendor", "--partial"]
    run("redact", record("shop"), "-o", out, "-c", companion, *words)
    before = run("symbolicate", record("shop"), stdin=log("shop")).stdout
    assert before != log("shop")
    assert run("symbolicate", out, "-c", companion, stdin=log("shop")).stdout == before
    alone = run("symbolicate", out, stdin=log("shop")).stdout
    assert alone.count(b"\n") == before.count(b"\n")
    assert b"/opt/py" in before
    assert b"/opt/py" not in alone


def test_the_graphs_id_stays_that_of_its_nodes() -> None:
    out, _, _ = redacted(record("shop"), preset="publish", partial=True)
    with archive.open(out) as opened:
        told = bytes(opened.records["export_graph_id"].view())
        tree = json.loads(bytes(opened.records["edge_dialect_exported_program/forward"].view()))
    texts = [node["metadata"].get("from_node", "") for node in nodes(tree)]
    assert any(f'"graph_id": {told.decode()},' in text for text in texts)
    assert int(told) < 10
