"""Every byte of an exported program is labelled: model and metadata, modules, sources, tensors; and how."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from operator import add
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import Limits
from archive.cli.commands import group
from archive.describe.inspect import inspect
from archive.describe.sizes import Size, View
from archive.describe.sizes.places import MetadataSize, NodeBytes, node_bytes
from archive.formats.exported.program import left_of
from archive.formats.record_kinds import is_program
from tests.support.corpus import FIXTURES
from tests.support.documents import files_of
from tests.support.exported import EXPORTED, PROGRAMS, nodes, trees
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from archive import Account

SHOP, SEVERAL = EXPORTED / "shop.pt2", EXPORTED / "several.pt2"
OTHERS = [EXPORTED / "legacy" / "shop.pt2", *sorted((FIXTURES / "executorch").glob("*.etrecord"))]
"""ETRecords, and what older releases of PyTorch saved."""
KINDS = ("traces", "modules", "functions", "origins", "other metadata")


def stored(account: Account, view: str) -> dict[str, int]:
    return {label: size.stored for label, size in account.by(view).items()}


def adds_up(account: Account, size: int) -> bool:
    views = [stored(account, view) for view in View]
    return account.size == size and all(
        sum(view.values()) == size and min(view.values()) >= 0 for view in views
    )


def records(path: Path) -> dict[str, bytes]:
    """The records of an archive, by name without root."""
    with zipfile.ZipFile(path) as opened:
        return {name.partition("/")[2]: opened.read(name) for name in opened.namelist()}


def zipped(contents: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, data in contents.items():
            made.writestr(f"m/{name}", data)
    return out.getvalue()


def made(*inner: dict[str, Any], **others: bytes) -> bytes:
    """An archive of one program of some nodes."""
    text = json.dumps({"graph_module": {"graph": {"nodes": list(inner)}}})
    return zipped({"archive_format": b"pt2", "models/model.json": text.encode(), **others})


def node(**metadata: str) -> dict[str, Any]:
    return {"inputs": [], "metadata": metadata, "name": "n"}


# --- totals


def test_all_views_of_every_fixture_add_up_and_metadata_is_what_a_split_takes() -> None:
    for path in PROGRAMS:
        account = archive.sizes(path)
        assert adds_up(account, path.stat().st_size), path
        programs = [data for name, data in records(path).items() if is_program(name)]
        left = [left_of(memoryview(data)) or data for data in programs]
        assert account.debug_bytes == sum(map(len, programs)) - sum(map(len, left)) > 0, path
        assert account.debug_bytes == sum(stored(account, "kind").get(kind, 0) for kind in KINDS)
        assert account.by("part").keys().isdisjoint({"unreadable"})


@pytest.mark.parametrize("path", PROGRAMS[::6], ids=lambda path: path.stem)
def test_kinds_of_metadata_are_as_json_writes_them(path: Path) -> None:
    kinds = {"stack_trace": "traces", "nn_module_stack": "modules", "torch_fn": "functions"}
    kinds |= {"source_fn_stack": "functions", "from_node": "origins", "custom": "other metadata"}
    expected, parts = dict.fromkeys(KINDS, 0), dict.fromkeys(kinds, 0)
    for one in (one for tree in trees(path).values() for one in nodes(tree)):
        for number, (key, text) in enumerate(one["metadata"].items(), 1):
            size = len(json.dumps({key: text})) - len("{}") + len(", ") * (number < len(one["metadata"]))
            expected[kinds[key]] += size
            parts[key] += size
    account = archive.sizes(path)
    assert {kind: stored(account, "kind").get(kind, 0) for kind in KINDS} == expected
    assert {key: stored(account, "part").get(key, 0) for key in kinds} == parts


def test_deflated_bytes_are_apportioned() -> None:
    whole = archive.sizes(SHOP).by("kind")
    data = zipped(records(SHOP), zipfile.ZIP_DEFLATED)
    account = archive.sizes(data)
    assert adds_up(account, len(data))
    found = account.by("kind")
    deflated = sum(found[kind].stored for kind in ("exported program", *KINDS) if kind in found)
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        assert deflated == opened.getinfo("m/models/model.json").compress_size
    for kind in ("exported program", *KINDS[:3]):
        assert found[kind].inflated == whole[kind].inflated
        assert found[kind].stored == pytest.approx(deflated * whole[kind].stored / 29_403, abs=1)


# --- hostile input


def broken_json(data: st.DataObject, text: bytes) -> bytes:
    """JSON with some bytes changed, put in, or taken out."""
    changed = bytearray(text)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed)))
        changed[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from(
                [b"", b'"', b"{", b"}", b"]", b",", b" ", b"\xc3\xa9", b"\\", b'"metadata": {}, ']
            )
        )
    return bytes(changed)


@given(st.data())
@settings(patient, max_examples=examples(60))
def test_changed_json_is_labelled_or_unreadable(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([EXPORTED / "noted.pt2", EXPORTED / "again.pt2", EXPORTED / "sums.pt2"]))
    contents = records(path)
    contents["models/model.json"] = text = broken_json(data, contents["models/model.json"])
    changed = zipped(contents)
    account = archive.sizes(changed)
    assert adds_up(account, len(changed))
    left = left_of(memoryview(text))
    if left is not None and account.by("part").keys().isdisjoint({"unreadable"}):
        assert account.debug_bytes == len(text) - len(left)


@given(st.data())
@settings(patient, max_examples=examples(60))
def test_changed_bytes_are_labelled_too_or_refused_as_everywhere(data: st.DataObject) -> None:
    changed = bytearray(data.draw(st.sampled_from([EXPORTED / "noted.pt2", SEVERAL])).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        account = archive.sizes(bytes(changed))
    except ArchiveError:
        with pytest.raises(ArchiveError):
            archive.open(bytes(changed)).close()
    else:
        assert adds_up(account, len(changed))


@pytest.mark.parametrize("text", [b"", b"{}", b"[" * 10_000, b'{"a": 1' + b"1" * 5_000 + b"}", b"\xff"])
def test_a_record_that_is_no_program_is_unreadable_and_hides_no_other(text: bytes) -> None:
    contents = records(SEVERAL) | {"models/choice.json": text}
    account = archive.sizes(zipped(contents))
    assert account.by("part").get("unreadable", Size()) == Size(len(text), len(text))
    assert account.debug_bytes == 10_125 + 1_342  # of the others
    assert "models/layers.py" in account.by("source")


def test_a_table_of_tensors_that_is_none_labels_nothing() -> None:
    for text in (b"", b"[]", b'{"config": 5}', b'{"config": {"a.b": 5, "c.d": {"path_name": 7}}}'):
        contents = records(SHOP) | {"data/weights/model_weights_config.json": text}
        assert stored(archive.sizes(zipped(contents)), "module")["[tensor]"] == 304


# --- modules and sources


def test_a_node_is_its_innermost_modules() -> None:
    one = node(nn_module_stack="L__self__,,m.M;L__self__a,a,m.A;L__self__a.b,a.b,m.B")
    top, none = node(nn_module_stack="L__self__,,m.M"), node()
    found = stored(archive.sizes(made(one, top, none)), "module")
    assert (found["a.b"], found["(top)"]) == (len(json.dumps(one)), len(json.dumps(top)))
    rest = {"graph_module": {"graph": {"nodes": [{}, {}, none]}}}
    assert found["[exported program]"] == len(json.dumps(rest)) - len("{}{}")


def test_a_node_of_an_inner_graph_without_modules_is_that_of_the_node_that_holds_it() -> None:
    inner, other = node(), node(nn_module_stack="k,b,m.B")
    held = {"as_graph": {"name": "g", "graph": {"nodes": [inner, other]}}}
    holder = node(nn_module_stack="k,a,m.A") | {"inputs": [{"arg": held}]}
    found = stored(archive.sizes(made(holder)), "module")
    assert found["b"] == len(json.dumps(other))
    assert found["a"] == len(json.dumps(holder)) - len(json.dumps(other))


def test_the_module_that_pytorch_puts_around_a_model_is_not_part_of_paths() -> None:
    """Strict export of control flow: nodes are below ``_export_root``, names of tensors are not."""
    found = stored(archive.sizes(EXPORTED / "walk_strict.pt2"), "module")
    assert {"out", "goods", "goods.norm", "goods.rows"} <= found.keys()
    assert not any("_export_root" in label for label in found)
    own = node(nn_module_stack="1,,m.M;2,_export_root,m.Other")  # an attribute of this name
    assert "_export_root" in archive.sizes(made(own)).by("module")


def test_tensors_belong_to_modules_with_their_headers() -> None:
    modules, by_record = (stored(archive.sizes(SHOP), view) for view in ("module", "record"))
    assert "[tensor]" not in modules
    own = [one for one in nodes(trees(SHOP)["model"]) if ",goods.rows,torch." in str(one)]
    assert modules["goods.rows"] == by_record["data/weights/weight_0"] + sum(
        len(json.dumps(one)) for one in own
    )


def test_a_tensor_of_several_modules_is_the_firsts() -> None:
    table = json.dumps({"config": {"a.weight": {"path_name": "w"}, "b.weight": {"path_name": "w"}}}).encode()
    others = {"data/weights/model_weights_config.json": table, "data/weights/w": b"1234"}
    found = stored(archive.sizes(made(**others)), "module")
    assert found["a"] > 4
    assert "b" not in found


def test_modules_of_several_programs_stay_apart() -> None:
    found = stored(archive.sizes(SEVERAL), "module")
    assert {"shop:goods.rows", "steps:words", "choice:(top)"} <= found.keys()
    rolled = archive.sizes(SEVERAL).by("module", depth=1)
    inner = [size for label, size in found.items() if label.startswith("shop:goods.")]
    assert rolled["shop:goods.*"].stored == sum(inner)


TRACE = '  File "{}", line 1, in f\n    x\n'
TORCH = "/opt/py/lib/python3.11/site-packages/torch/nn/modules/linear.py"


@pytest.mark.parametrize(
    ("files", "source"),
    [
        (["a.py", "b.py"], "b.py"),
        (["a.py", TORCH, "<eval_with_key>.3"], "a.py"),
        ([TORCH], TORCH),
        (["C:\\py\\site-packages\\torch\\nn\\x.py", "C:\\m.py"], "C:\\m.py"),
        (["m.py", "/venv/site-packages/transformers/bert.py"], "/venv/site-packages/transformers/bert.py"),
        (["m.py", "/venv/site-packages/torchvision/x.py"], "/venv/site-packages/torchvision/x.py"),
        ([], "(none)"),
    ],
)
def test_a_node_is_about_the_file_of_its_innermost_frame_that_is_not_pytorchs(
    files: list[str], source: str
) -> None:
    one = node(stack_trace="".join(map(TRACE.format, files)) or "no trace")
    assert stored(archive.sizes(made(one)), "source")[source] == len(json.dumps(one))


def test_a_node_without_a_trace_is_about_no_file() -> None:
    assert stored(archive.sizes(made(node())), "source")["(none)"] == len(json.dumps(node()))


# --- files


def test_the_difference_to_the_split_file_is_the_metadata(tmp_path: Path) -> None:
    small, aside = tmp_path / "small.pt2", tmp_path / "aside.ptdbg"
    archive.split(SHOP, small, aside)
    changes = archive.sizes(small).difference(archive.sizes(SHOP), "kind")
    assert (changes["traces"].old, changes["traces"].new) == (6_259, None)
    assert changes["exported program"].difference <= 0
    with archive.open(small, companion=aside) as opened:
        assert archive.sizes(opened).pieces == archive.sizes(small).pieces  # its own file's
    companion = archive.sizes(aside)
    assert adds_up(companion, aside.stat().st_size)
    assert {"call", "line", "site", "instance"} <= companion.by("kind").keys()
    assert companion.debug_bytes == companion.size


@pytest.mark.parametrize("level", ["compact", "embed"])
def test_smaller_files_are_labelled_too(level: str, tmp_path: Path) -> None:
    small = tmp_path / "small.pt2"
    archive.shrink(SHOP, small, level=level)
    account, whole = archive.sizes(small), archive.sizes(SHOP)
    assert adds_up(account, small.stat().st_size)
    found = account.by("kind")
    assert found["modules"].stored < found["modules"].inflated <= whole.by("kind")["modules"].inflated
    labels = {"traces": 0, "embedded companion": 0} | stored(account, "kind")
    assert (labels["traces"] > 0, labels["embedded companion"] > 0) == (level == "compact", level == "embed")
    assert account.debug_bytes == sum(labels[kind] for kind in {*KINDS, "embedded companion"} & labels.keys())


def sizes(*arguments: object) -> Result:
    return CliRunner().invoke(group, ["sizes", *map(str, arguments)])


@pytest.mark.parametrize(
    ("budget", "status"),
    [("traces=6.2KB", 1), ("traces=6.3KB", 0), ("origins=0", 0), ("debug=10KB", 1), ("debug=11KB", 0)],
)
def test_budgets_hold_for_metadata(budget: str, status: int) -> None:
    assert sizes(SHOP, "--budget", budget).exit_code == status


def test_a_folder_counts_programs_as_models(tmp_path: Path) -> None:
    models = (SEVERAL, SHOP, *OTHERS[:2], FIXTURES / "compiled" / "several.pt2")
    for number, path in enumerate(models):
        (tmp_path / f"{number}.bin").write_bytes(path.read_bytes())
    facts = files_of(sizes(tmp_path, "--json").stdout)
    assert [one["debug_bytes"] for one in facts] == [archive.sizes(path).debug_bytes for path in models]
    assert sizes(tmp_path, "--base", tmp_path, "--budget", "traces=+0").exit_code == 0
    assert sizes(tmp_path, "--budget", "traces=7KB").stderr.count("over the budget") == 1


MAPS = {"map of instructions"}
"""Kinds of records of an ETRecord that are debug info as a whole."""


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_programs_elsewhere_are_labelled_too(path: Path) -> None:
    account = archive.sizes(path)
    assert adds_up(account, path.stat().st_size)
    with archive.open(path) as opened:
        metadata = sum(one.metadata_bytes for one in inspect(opened).programs.values())
        maps = sum(account.by("kind")[kind].stored for kind in MAPS & account.by("kind").keys())
        assert account.debug_bytes == metadata + maps > maps
        modules = {"(top)" if name == "model" else f"{name}:(top)" for name in opened.programs}
    assert modules <= account.by("module").keys()


# --- The bytes of nodes and of their metadata in JSON, compared with what ``json`` writes of them


TREES = [tree for path in PROGRAMS for tree in trees(path).values()]


def scanned(text: str | bytes) -> Sequence[NodeBytes]:
    data = text.encode() if isinstance(text, str) else text
    return node_bytes(memoryview(data))


def flat(found: Sequence[NodeBytes]) -> Iterator[NodeBytes]:
    for one in found:
        yield one
        yield from flat(one.inner)


def node_json(metadata: dict[str, Any], *held: dict[str, Any]) -> dict[str, Any]:
    inputs = [{"name": "", "arg": {"as_graph": {"name": "g", "graph": {"nodes": [one]}}}} for one in held]
    return {"target": "t", "inputs": inputs, "metadata": metadata, "name": "n"}


def program(*made: dict[str, Any]) -> dict[str, Any]:
    return {"graph_module": {"graph": {"inputs": [], "nodes": list(made)}}, "torch_version": "2.13.0"}


def test_nodes_and_metadata_of_all_fixtures_are_as_large_as_json_writes_them() -> None:
    assert len(TREES) == 41
    inner = 0
    for tree in TREES:
        found, expected = list(flat(scanned(json.dumps(tree)))), list(nodes(tree))
        assert [one.size for one in found] == [len(json.dumps(one)) for one in expected]
        inner += sum(len(one.inner) for one in found)
        for one, other in zip(found, expected, strict=True):
            texts = list(other["metadata"].items())
            assert [(entry.key, entry.text) for entry in one.metadata] == texts
            alone = [len(json.dumps({key: text})) - len("{}") for key, text in texts]
            behind = [len(", ") * (number < len(texts)) for number in range(1, len(texts) + 1)]
            assert [entry.size for entry in one.metadata] == list(map(add, alone, behind))
    assert inner == 124


texts = st.text(max_size=8) | st.sampled_from(['"}', "é☃🐍", "\\u00e9", "\ud800", "metadata", "as_graph"])
made_nodes = st.recursive(
    st.builds(node_json, st.dictionaries(texts, texts, max_size=3)),
    lambda inner: st.builds(node_json, st.dictionaries(texts, texts, max_size=3), inner, inner),
    max_leaves=6,
)
layouts = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 2, "\t"]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" ,\r\n", "\t: ")]),
    }
)


@given(st.lists(made_nodes, max_size=3), layouts)
@patient
def test_what_stands_between_the_braces_of_metadata_is_what_json_writes_less_without(
    made: list[dict[str, Any]], layout: dict[str, Any]
) -> None:
    """Whatever the layout: blanks, and characters of several bytes."""
    tree = program(*made)
    whole = json.dumps(tree, **layout).encode("utf-8", "surrogatepass")
    surrogates = not layout["ensure_ascii"] and "\\ud800" in json.dumps(tree)
    if surrogates:
        with pytest.raises(ArchiveError, match="UTF-8"):
            scanned(whole)
        return
    found, expected = list(flat(scanned(whole))), list(nodes(tree))
    told = [{entry.key: entry.text for entry in one.metadata} for one in found]
    assert told == [one["metadata"] for one in expected]
    assert all(one.own > 0 for one in found)
    sizes = sum(entry.size for one in found for entry in one.metadata)
    for one in expected:
        one["metadata"] = {}
    assert sizes == len(whole) - len(json.dumps(tree, **layout).encode("utf-8", "surrogatepass"))


def test_of_keys_that_stand_twice_the_last_one_counts() -> None:
    inner = '{"inputs": [], "metadata": {"a": "1"}, "metadata": {"a": "2", "a": "34"}}'
    text = f'{{"graph_module": {{"graph": {{"nodes": [], "nodes": [{inner}]}}}}}}'
    (found,) = scanned(text)
    assert found == NodeBytes(len(inner), [MetadataSize("a", "2", 10), MetadataSize("a", "34", 9)], ())


PROBLEMS = {
    "": "byte 0: expected JSON, found Expecting value",
    "[]": "byte 2: expected a program",
    "{}": "byte 2: expected a program",
    '{"graph_module": {"graph": 5}}': "byte 27: expected a graph",
    '{"graph_module": {"graph": {"nodes": 5}}}': "byte 37: expected [",
    '{"graph_module": {"graph": {"nodes": [5]}}}': "byte 38: expected {",
    '{"graph_module": {"graph": {"nodes": [{}]}}}': "byte 38: expected a node",
    '{"graph_module": {"graph": {"nodes": [{"metadata": 5}]}}}': "byte 51: expected {",
    '{"graph_module": {"graph": {"nodes": [{"metadata": {"a": 5}}]}}}': "byte 51: expected texts",
    '{"graph_module": {"graph": {"nodes": [{"inputs": {}}]}}}': "byte 49: expected a list",
    '{"graph_module": {"graph": {"nodes": [],}}}': "byte 40: expected a key",
    '{"graph_module": {"graph": {"nodes": []}}} 5': "byte 43: expected a program",
    '{"graph_module": {"graph": {"nodes": []}': "byte 40: expected , or }",
    '{"graph_module": {"graph": {"nodes": [] "a"': "byte 40: expected , or }",
    "{5: 1}": "byte 1: expected a key",
    '{"a" 1}': "byte 4: expected :",
    '{"a": nothing}': "byte 6: expected JSON, found Expecting value",
    '{"a": "\n"}': "byte 7: expected JSON, found Invalid control character at",
}


@pytest.mark.parametrize("text", PROBLEMS)
def test_what_is_no_program_is_refused_with_its_byte(text: str) -> None:
    with pytest.raises(ArchiveError) as raised:
        scanned(text)
    assert str(raised.value).startswith(PROBLEMS[text])


def test_bombs_are_refused() -> None:
    with pytest.raises(ArchiveError, match="byte 8: expected UTF-8, found other bytes"):
        scanned(b'{"a": ".\xff"}')
    with pytest.raises(ArchiveError, match="nested too deeply"):
        scanned('{"a": ' + "[" * 100_000)
    with pytest.raises(ArchiveError, match="Exceeds the limit"):
        scanned('{"a": ' + "1" * 5_000 + "}")
    deep = node_json({})
    for _ in range(30):
        deep = node_json({}, deep)
    with pytest.raises(ArchiveError, match="25 graphs inside one another"):
        scanned(json.dumps(program(deep)))
    with pytest.raises(LimitError, match="memory"), memory.charged(Limits(memory=1000).allowance(0)):
        node_bytes(memoryview(b" " * 1000))


BOMBS = {
    "nodes": '{"graph_module":{"graph":{"nodes":[' + '{"inputs":[],"metadata":{}},' * 9_999 + "{}]}}}",
    "metadata": '{"graph_module":{"graph":{"nodes":[{"metadata":{' + '"a":"",' * 19_999 + '"a":""}}]}}}',
    "arguments": '{"graph_module":{"graph":{"nodes":[{"inputs":[' + '{"a":{}},' * 9_999 + "{}]}]}}}",
    "members": "{" + '"a":1,' * 19_999 + '"a":1}',
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_memory_is_asked_for(text: str) -> None:
    with memory.charged(Limits(memory=1 << 40).allowance(0)):
        data = memoryview(text.encode())
        tracemalloc.start()
        try:
            with pytest.raises(ArchiveError):
                node_bytes(data)
            assert 5 * len(data) < tracemalloc.get_traced_memory()[1] <= memory.current().peak
        finally:
            tracemalloc.stop()
