"""Each kind of metadata parses and is built again to the same text, or is refused."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.formats.exported.modules import Instance, Key, build_modules, parse_modules
from archive.formats.exported.node_metadata import (
    build_function,
    build_functions,
    parse_function,
    parse_functions,
)
from archive.formats.exported.origins import NodeOrigin, build_origins, parse_origins
from archive.formats.exported.traces import FrameMark, Trace, TraceFrame, build_trace, parse_trace
from tests.support.exported import METADATA, texts

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "stack_trace": (parse_trace, build_trace),
    "nn_module_stack": (parse_modules, build_modules),
    "torch_fn": (parse_function, build_function),
    "source_fn_stack": (parse_functions, build_functions),
    "from_node": (parse_origins, build_origins),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_of_the_fixtures_comes_back(kind: str) -> None:
    parse, build = KINDS[kind]
    found = texts(kind)
    assert len(found) > 50
    for text in found:
        parsed = parse(text)
        assert parsed is not None, text
        assert build(parsed) == text


def test_no_other_kind_is_in_the_fixtures() -> None:
    assert [kind for kind in METADATA if kind not in KINDS and texts(kind)] == ["custom"]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_text_is_kept_or_refused(kind: str, data: st.DataObject) -> None:
    parse, build = KINDS[kind]
    known = data.draw(st.sampled_from(texts(kind)))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(known))] * 2)))
    text = (
        known[:start]
        + data.draw(st.text(max_size=5) | st.sampled_from(["\n", ";", ",", '"', "[", "@1"]))
        + known[end:]
    )
    parsed = parse(text)
    assert parsed is None or build(parsed) == text


def test_a_trace_of_strict_export() -> None:
    text = (
        '  File "models/branches.py", line 51, in forward\n'
        "    i, x = while_loop(more, step, (start, x))\n"
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    )
    code = "i, x = while_loop(more, step, (start, x))"
    frame = TraceFrame("models/branches.py", 51, "forward", code, FrameMark(7, 0, 34, 0))
    assert parse_trace(text) == Trace((frame,), indented=True, ended=True)


def test_a_trace_of_non_strict_export_without_a_line() -> None:
    text = 'File "a.py", line 3, in f\n    x + 1\n  File "<string>", line 1, in <lambda>'
    frames = (TraceFrame("a.py", 3, "f", "x + 1", None), TraceFrame("<string>", 1, "<lambda>", None, None))
    assert parse_trace(text) == Trace(frames, indented=False, ended=False)


def test_what_this_python_prints_is_a_trace() -> None:
    def divided(value: int) -> float:
        return (value
                + 1) / (value - 1)  # fmt: skip

    with pytest.raises(ZeroDivisionError) as caught:
        divided(1)
    text = "".join(traceback.format_tb(caught.value.__traceback__))
    parsed = parse_trace(text)
    assert parsed is not None
    assert build_trace(parsed) == text
    assert [frame.function for frame in parsed.frames][-1] == "divided"


def test_keys_of_module_instances() -> None:
    text = "L__self__,,shop.Shop;L__self__goods.rows@1,goods.rows,nn.Embedding;140@2,a,b[c,d]"
    assert parse_modules(text) == (
        Instance(Key(None, None, None), "", "shop.Shop"),
        Instance(Key(None, None, 1), "goods.rows", "nn.Embedding"),
        Instance(Key(None, 140, 2), "a", "b[c,d]"),
    )


@pytest.mark.parametrize("text", ["", "a,b", "a,b,c,d", "a,b,c;", "a,[b,c"])
def test_what_is_no_module_stack(text: str) -> None:
    assert parse_modules(text) is None


def test_an_origin_of_an_origin() -> None:
    inner = NodeOrigin("linear", "aten.linear.default", 7, "ExportedProgram.module()", "create", ())
    text = build_origins(
        (NodeOrigin("linear", "aten.linear.default", 8, "Interpreter", "create+replace", (inner,)),)
    )
    assert parse_origins(text) == (
        NodeOrigin("linear", "aten.linear.default", 8, "Interpreter", "create+replace", (inner,)),
    )


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1]",
        '[{"name": "a"}]',
        "[" * 100_000,
        '[{"name": "a", "target": "b", "graph_id": true, "pass_name": "c", "action": "d", "from_node": []}]',
    ],
)
def test_what_is_no_origin(text: str) -> None:
    assert parse_origins(text) is None
