"""The bytes of nodes and of their metadata in JSON, compared with what ``json`` writes of them."""

from __future__ import annotations

import json
import tracemalloc
from operator import add
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import Limits, unbounded
from archive.formats.exported.places import MetadataSize, NodeBytes, node_bytes
from tests.support.exported import PROGRAMS, nodes, trees
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TREES = [tree for path in PROGRAMS for tree in trees(path).values()]


def scanned(text: str | bytes) -> Sequence[NodeBytes]:
    data = text.encode() if isinstance(text, str) else text
    return node_bytes(memoryview(data), unbounded())


def flat(found: Sequence[NodeBytes]) -> Iterator[NodeBytes]:
    for one in found:
        yield one
        yield from flat(one.inner)


def node(metadata: dict[str, Any], *held: dict[str, Any]) -> dict[str, Any]:
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
    st.builds(node, st.dictionaries(texts, texts, max_size=3)),
    lambda inner: st.builds(node, st.dictionaries(texts, texts, max_size=3), inner, inner),
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
    deep = node({})
    for _ in range(30):
        deep = node({}, deep)
    with pytest.raises(LimitError, match="nested graphs"):
        scanned(json.dumps(program(deep)))
    with pytest.raises(LimitError, match="memory"):
        node_bytes(memoryview(b" " * 1000), Limits(memory=1000).allowance(0))


BOMBS = {
    "nodes": '{"graph_module":{"graph":{"nodes":[' + '{"inputs":[],"metadata":{}},' * 9_999 + "{}]}}}",
    "metadata": '{"graph_module":{"graph":{"nodes":[{"metadata":{' + '"a":"",' * 19_999 + '"a":""}}]}}}',
    "arguments": '{"graph_module":{"graph":{"nodes":[{"inputs":[' + '{"a":{}},' * 9_999 + "{}]}]}}}",
    "members": "{" + '"a":1,' * 19_999 + '"a":1}',
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_memory_is_asked_for(text: str) -> None:
    allowance = Limits(memory=1 << 40).allowance(0)
    data = memoryview(text.encode())
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError):
            node_bytes(data, allowance)
        assert 5 * len(data) < tracemalloc.get_traced_memory()[1] <= allowance.peak
    finally:
        tracemalloc.stop()
