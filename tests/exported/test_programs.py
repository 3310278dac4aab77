"""Programs of ``.pt2`` archives: nodes, scopes and releases; what is no program; those before ``.pt2``."""

from __future__ import annotations

import io
import json
import traceback
import tracemalloc
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import archive
from archive.base.errors import ArchiveError, LimitError
from archive.companion.layout import CompanionLayout
from archive.container.write import new_member
from archive.describe.sizes.places import node_bytes
from archive.formats.exported.inputs import inputs_of
from archive.formats.exported.program import MAX_SCOPES, Program
from archive.formats.exported.sites import NodeSite
from archive.formats.record_kinds import programs_in
from archive.reader.recognition import FileKind, recognise
from archive.reader.recognition.kinds import ADVICE
from tests.support.commands import run
from tests.support.documents import file_of
from tests.support.exported import EXPORTED, PROGRAMS, nodes, trees
from tests.support.hostile_companions import hostile
from tests.support.sampling import sampled
from tests.support.zips import written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.normalform.columns import Columns


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


def test_sizes_that_vary_have_the_names_of_their_ranges() -> None:
    with archive.open(EXPORTED / "sized.pt2") as opened:
        inputs = opened.programs["model"].inputs or ()
    expected = ["x, float32 of shape (s77, 2), s77 from 4", "y, float32 of shape (s17, 2), s17 from 2"]
    assert [each.text for each in inputs] == expected


def test_a_size_computed_of_another_has_the_numbers_of_its_formula() -> None:
    size = {"as_expr": {"expr_str": "Mul(Integer(2), Symbol('s77', positive=True, integer=True))"}}
    graph = {"tensor_values": {"x": {"dtype": 7, "sizes": [size]}}}
    signature = {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}}]}
    (found,) = inputs_of({"graph_module": {"graph": graph, "signature": signature}}) or ()
    assert found.sizes == ("Mul(2, s77)",)


@pytest.mark.parametrize(
    ("digits", "handle"), [("17", "17"), ("9" * 18, "9" * 18), ("9" * 19, None), ("9" * 5_000, None)]
)
def test_a_handle_has_as_many_digits_as_an_integer(digits: str, handle: str | None) -> None:
    custom = {"custom": f'{{"debug_handle": {digits}}}'}
    assert NodeSite("a", "torch.ops.aten.relu.default", (), (), custom).handle == handle


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
    for _ in range(MAX_SCOPES):
        graph = {"nodes": [holding(graph)]}
    tree = {"graph_module": {"graph": graph}}
    assert len(Program.of("model", tree).sites) == MAX_SCOPES + 1
    assert node_bytes(memoryview(json.dumps(tree).encode()))
    tree = {"graph_module": {"graph": {"nodes": [holding(graph)]}}}
    refused = f"expected at most {MAX_SCOPES} graphs inside one another, found more"
    with pytest.raises(ArchiveError, match=refused):
        assert Program.of("model", tree).sites
    with pytest.raises(ArchiveError, match=refused):
        node_bytes(memoryview(json.dumps(tree).encode()))


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


# --- Companions of exported programs by a hostile writer: shared rows whose texts multiply, deep origins


LONG = "b" * 100_000


def hostile_node(name: str, metadata: dict[str, str], inputs: list[Any] | None = None) -> dict[str, Any]:
    return {"target": "t", "inputs": inputs or [], "outputs": [], "metadata": metadata, "name": name}


def hostile_program(folder: Path, *nodes: dict[str, Any]) -> Path:
    text = json.dumps({"graph_module": {"graph": {"nodes": list(nodes)}}})
    path = folder / "made.pt2"
    path.write_bytes(
        written(new_member("archive_format", b"pt2"), new_member("models/model.json", text.encode()))
    )
    return path


def metadata(folder: Path, texts: dict[str, str], change: Callable[[Columns], object]) -> dict[str, str]:
    """The metadata of the only node, by a companion whose columns are changed."""
    aside = folder / "made.ptdbg"
    aside.write_bytes(
        hostile(hostile_program(folder, hostile_node("a", texts)), CompanionLayout.MAPPED, change)
    )
    with archive.open(aside) as opened:
        return dict(opened.programs["model"].sites["a"].metadata)


def origin(number: int, text: str) -> dict[str, Any]:
    keys = {"name": f"a_{number}", "target": "t", "graph_id": number, "pass_name": text, "action": "create"}
    return {**keys, "from_node": []}


def test_paths_of_modules_that_grow_with_each_instance_are_refused_before_they_are_made(
    tmp_path: Path,
) -> None:
    paths = [".".join(["x"] * count) for count in range(1, 100)]
    stack = ";".join(f"L__self__{path},{path},C" for path in [*paths, LONG])

    def change(columns: Columns) -> None:
        instances = columns["inside.instance"]
        columns["inside.instance"] = np.full_like(instances, instances[-1])
        columns["instance.whole"] = np.zeros_like(columns["instance.whole"])

    tracemalloc.start()
    try:
        with pytest.raises(LimitError, match="memory"):
            metadata(tmp_path, {"nn_module_stack": stack}, change)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_all_texts_of_origins_count(tmp_path: Path) -> None:
    text = json.dumps([origin(number, LONG if not number else "p") for number in range(1000)])

    def change(columns: Columns) -> None:
        made_by = columns["origin.pass"]
        columns["origin.pass"] = np.full_like(made_by, made_by[-1])

    with pytest.raises(LimitError, match="memory"):
        metadata(tmp_path, {"from_node": text}, change)


def test_origins_are_not_deeper_than_those_that_are_packed(tmp_path: Path) -> None:
    text = json.dumps([origin(number, "p") for number in range(1500)])

    def change(columns: Columns) -> None:
        rows = len(columns["origin.next"])
        columns["origin.next"], columns["origin.inner"] = np.full(rows, -1), np.arange(rows) - 1

    with pytest.raises(ArchiveError, match=r"origin\.inner"):
        metadata(tmp_path, {"from_node": text}, change)


def test_a_node_without_a_name_stays_in_its_graph(tmp_path: Path) -> None:
    graph = {"name": "g", "graph": {"nodes": [hostile_node("", {"k": "v"}), hostile_node("c", {"k": "w"})]}}
    path = hostile_program(tmp_path, hostile_node("h", {}, [{"name": "", "arg": {"as_graph": graph}}]))
    archive.split(path, tmp_path / "small.pt2", tmp_path / "made.ptdbg")
    with archive.open(tmp_path / "made.ptdbg") as opened:
        assert list(opened.programs["model"].sites) == ["h", "h.g/", "h.g/c"]


def test_an_error_in_a_node_names_the_file_and_the_record(tmp_path: Path) -> None:
    path = hostile_program(tmp_path, hostile_node("a", {}), hostile_node("a", {}))
    with archive.open(path) as opened, pytest.raises(ArchiveError) as refused:
        list(opened.programs["model"].sites)
    assert str(refused.value).startswith(f"{path}: models/model.json, graph_module.graph.nodes[1]: ")


# --- What ``torch.export.save`` of PyTorch 2.1 to 2.7 wrote: told, inspected, and its nodes looked up


LEGACY, SHOP = EXPORTED / "legacy" / "shop.pt2", EXPORTED / "shop.pt2"
READ = ADVICE[FileKind.LEGACY_EXPORTED].partition(";")[0]
TOLD = f"as PyTorch 2.1 to 2.7 saved them: {READ}"


def test_it_is_told_with_what_works_on_it_and_the_way_out(tmp_path: Path) -> None:
    found = recognise(LEGACY)
    assert found.kind is FileKind.LEGACY_EXPORTED
    assert TOLD in str(found)
    assert "once PyTorch 2.8 or later exports the model again" in str(found)
    for verb in ("split", "shrink", "restore", "migrate --to latest"):
        done = run(*verb.split(), LEGACY, "-o", tmp_path / "out")
        assert (done.returncode, TOLD in done.stderr.decode()) == (2, True)
    assert not (tmp_path / "out").exists()


def test_its_nodes_are_looked_up_like_those_of_today() -> None:
    with archive.open(LEGACY) as legacy, archive.open(SHOP) as today:
        assert list(legacy.programs) == ["model"]
        assert list(legacy.programs["model"].sites) == list(today.programs["model"].sites)
    done = run("symbolicate", LEGACY, "embedding_1")
    assert done.stdout == run("symbolicate", SHOP, "embedding_1").stdout
    log = (EXPORTED / "shop.interpreter.stripped.txt").read_bytes()
    assert run("symbolicate", LEGACY, stdin=log).stdout == (EXPORTED / "shop.interpreter.txt").read_bytes()


def test_inspect_and_sizes_show_its_records() -> None:
    facts = file_of(run("inspect", LEGACY, "--json").stdout)
    assert facts["programs"]["model"]["traced"] == 26
    assert {name: record["kind"] for name, record in facts["records"].items()} == {
        "serialized_exported_program.json": "exported program",
        "serialized_state_dict.pt": "tensor",
        "serialized_constants.pt": "tensor",
        "serialized_example_inputs.pt": "sample inputs",
        "version": "archive format",
        "extra_files/notes.txt": "extra file",
    }
    sizes = archive.sizes(LEGACY)
    assert sum(size.stored for size in sizes.by("kind").values()) == LEGACY.stat().st_size


def test_a_file_of_that_name_in_a_folder_is_none() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made, zipfile.ZipFile(LEGACY) as legacy:
        for name in legacy.namelist():
            made.writestr(f"m/{name}", legacy.read(name))
    assert recognise(out.getvalue()).kind is FileKind.ZIP
    assert programs_in(["serialized_exported_program.json"], "m") == {}


@pytest.mark.parametrize("program", [b"{}", b"[", b"\xff"])
def test_a_broken_program_is_told_with_its_record(program: bytes) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("serialized_exported_program.json", program)
    with (
        archive.open(out.getvalue(), name="m.pt2") as opened,
        pytest.raises(ArchiveError, match=r"m\.pt2: serialized_exported_program\.json"),
    ):
        _ = opened.programs["model"].sites


def changed(**contents: bytes | None) -> bytes:
    """The file with other contents of some records, by names without endings; None takes one out."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made, zipfile.ZipFile(LEGACY) as legacy:
        for name in legacy.namelist():
            content = contents.get(name.partition(".")[0], legacy.read(name))
            if content is not None:
                made.writestr(name, content)
    return out.getvalue()


def legacy_program(old: bytes, new: bytes) -> bytes:
    """The program with one place changed."""
    with zipfile.ZipFile(LEGACY) as legacy:
        data = legacy.read(f"{PROGRAM}.json")
    assert old in data
    return data.replace(old, new, 1)


PROGRAM = "serialized_exported_program"
REFUSED: dict[str, dict[str, bytes | None]] = {
    "expected a record version, found none": {"version": None},
    "expected 2 numbers, found '8'": {"version": b"8"},
    "expected a record serialized_state_dict.pt, found none": {"serialized_state_dict": None},
    "expected a record serialized_constants.pt, found none": {"serialized_constants": None},
    "expected a record serialized_example_inputs.pt, found none": {"serialized_example_inputs": None},
    "'other'": {PROGRAM: legacy_program(b'{"name": "first"}', b'{"name": "other"}')},
    "expected 8, found 7": {
        PROGRAM: legacy_program(b'"schema_version": {"major": 8', b'"schema_version": {"major": 7')
    },
    "signature": {PROGRAM: legacy_program(b'"signature"', b'"signatures"')},
}
"""Changed files, by a part of what is said of them."""


def test_a_sound_one_has_no_findings_but_pickles() -> None:
    assert {(one.severity, one.record) for one in archive.verify(LEGACY)} == {
        ("note", "serialized_state_dict.pt"),
        ("note", "serialized_constants.pt"),
    }


@pytest.mark.parametrize("why", REFUSED)
def test_what_pytorch_refuses_is_an_error(why: str) -> None:
    found = archive.verify(changed(**REFUSED[why]))
    assert any(one.severity == "error" and why in one.message for one in found)


@pytest.mark.torch
@pytest.mark.parametrize("why", REFUSED)
def test_pytorch_refuses_it_so(why: str) -> None:
    import torch  # noqa: PLC0415 (an extra)

    data = changed(**REFUSED[why])
    told = [one.message for one in archive.verify(data) if one.severity == "error"]
    try:
        torch.export.load(io.BytesIO(data))
    except Exception as error:  # noqa: BLE001 (of any kind)
        refused = "".join(traceback.format_exception_only(error))
    else:
        refused = ""
    assert any(message.partition('"')[2].rstrip('"') in refused for message in told if '"' in message)


@pytest.mark.torch
def test_another_schema_is_an_error_that_tells_the_way_out_and_pytorch_refuses_it() -> None:
    import torch  # noqa: PLC0415 (an extra)

    data = changed(version=b"7.3")
    found = archive.verify(data)
    (told,) = (one for one in found if one.severity == "error")
    assert told.message.startswith("expected schema 8, found '7.3': load it with PyTorch '2.13.0")
    assert "export the model again" in told.message
    with pytest.raises(RuntimeError, match="does not match our current schema version"):
        torch.export.load(io.BytesIO(data))


@pytest.mark.torch
def test_pytorch_loads_it() -> None:
    import torch  # noqa: PLC0415 (an extra)

    assert len(torch.export.load(LEGACY).graph_module.graph.nodes) > 26
