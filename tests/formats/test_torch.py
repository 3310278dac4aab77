"""PyTorch, live: what it saves is read as it means it, and what is built here it takes for its own."""

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

import archive
from archive import Archive
from archive.debuginfo.excerpt import excerpt
from archive.debuginfo.model import Generation, RangeLayout, RangeRow
from archive.debuginfo.tables import RangeTable
from archive.formats.callstack_map import build_callstack_map
from archive.formats.source_ranges import build_source_ranges
from tests.support.corpus import CALLSTACKS
from tests.support.strategies import Range, table_of

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

from tests.support.torch_oracles import printed, replaced

pytestmark = pytest.mark.torch

SERIALIZED = re.compile(r'Serialized   File "(?P<name>.+)", line (?P<line>\d+)\n(?P<context>.*)', re.DOTALL)


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


class Affine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.matmul(x, self.w)  # größe: offsets are bytes
        return y + 1


class Gate(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Affine()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            x = self.inner(
                x,
            )
        return scaled(x, 0.5)


class Top(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.blocks = torch.nn.Sequential(Affine(), Affine())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = self.gate(x)
        return self.blocks(x)


@contextlib.contextmanager
def string_table(*, used: bool) -> Iterator[None]:
    switch = torch._C._set_should_use_format_with_string_table
    switch(used)
    try:
        yield
    finally:
        switch(True)  # noqa: FBT003 (PyTorch's own signature)


def model(kind: str) -> torch.jit.ScriptModule:
    top = Top().eval()
    if kind == "traced":
        with warnings.catch_warnings():  # that the branch depends on the input
            warnings.simplefilter("ignore", torch.jit.TracerWarning)
            return torch.jit.trace(top, torch.ones(3, 3))
    scripted = torch.jit.script(top)
    return torch.jit.freeze(scripted) if kind == "frozen" else scripted


def saved(kind: str, layout: RangeLayout = RangeLayout.STRING_TABLE, *, mobile: bool = False) -> bytes:
    with string_table(used=layout is RangeLayout.STRING_TABLE):
        if mobile:
            buffer: bytes = model(kind)._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
            return buffer
        out = io.BytesIO()
        torch.jit.save(model(kind), out)
        return out.getvalue()


def position(opened: Archive, name: str, line: int, context: str) -> int:
    """The byte of a generated code record at which a node's serialized range begins."""
    lines = bytes(opened.records[name].view()).split(b"\n")
    shown = context.split("\n")
    marking = next(text for text in shown if re.fullmatch(r" *~+( <--- HERE)?", text))
    return sum(len(one) + 1 for one in lines[: line - 1]) + marking.index("~")


def rebuilt_ranges(data: bytes, layout: RangeLayout) -> bytes:
    """The archive with its source ranges built anew in a layout, row by row."""
    with archive.open(data) as opened:
        return replaced(
            opened,
            {
                name: build_source_ranges(table(opened.ranges(name), layout), 0)
                for name in opened.range_table.names
            },
        )


def table(rows: Sequence[RangeRow], layout: RangeLayout) -> RangeTable:
    ranges = [
        Range(
            bytes(row.range.source.text),
            row.range.start,
            row.range.end,
            None if row.range.source.filename is None else bytes(row.range.source.filename),
            row.range.source.starting_line,
        )
        for row in rows
    ]
    made = table_of([row.offset for row in rows], ranges, layout)
    made.tag[:] = [-1 if layout is RangeLayout.PAIR else row.tag for row in rows]
    return made


def failure(data: bytes) -> str:
    """What the lite interpreter says when the model is given too wide a matrix."""
    loaded = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data))
    with pytest.raises(RuntimeError) as caught:
        loaded(torch.ones(2, 5))
    return str(caught.value)


@pytest.mark.parametrize("layout", [RangeLayout.STRING_TABLE, RangeLayout.INLINE])
@pytest.mark.parametrize("kind", ["scripted", "traced", "frozen"])
def test_every_node_is_located_where_pytorch_has_it(kind: str, layout: RangeLayout) -> None:
    data = saved(kind, layout)
    seen = 0
    with archive.open(data) as opened:
        assert set(opened.range_table.layouts) - {RangeLayout.EMPTY} == {layout}
        for text in printed(data):
            found = SERIALIZED.search(text)
            assert found
            name, line, context = found["name"], int(found["line"]), found["context"]
            located = opened.locate(name, position(opened, name, line, context))
            assert located
            assert excerpt(located, b"").decode() == text[: found.start()]
            seen += 1
    assert seen > 10


@pytest.mark.parametrize("layout", [RangeLayout.PAIR, RangeLayout.INLINE, RangeLayout.STRING_TABLE])
@pytest.mark.parametrize("kind", ["scripted", "traced", "frozen"])
def test_source_ranges_built_here_are_pytorchs_own_to_torchscript(kind: str, layout: RangeLayout) -> None:
    data = saved(kind)
    again = rebuilt_ranges(data, layout)
    assert again != data
    assert printed(again) == printed(data)


@pytest.mark.parametrize("layout", [RangeLayout.INLINE, RangeLayout.STRING_TABLE])
@pytest.mark.parametrize("kind", ["scripted", "traced", "frozen"])
def test_source_ranges_built_here_are_pytorchs_own_to_the_lite_interpreter(
    kind: str, layout: RangeLayout
) -> None:
    data = saved(kind, mobile=True)
    said = failure(data)
    assert "Module hierarchy:top(Top)" in said
    assert failure(rebuilt_ranges(data, layout)) == said


@pytest.mark.parametrize("kind", ["scripted", "traced", "frozen"])
def test_a_call_stack_map_built_here_in_another_order_is_pytorchs_own(kind: str) -> None:
    data = saved(kind, mobile=True)
    said = failure(data)
    with archive.open(data) as opened:
        stacks = opened.handle_table
        assert stacks is not None
        turned = replace(
            stacks, **{name: getattr(stacks, name)[::-1] for name in ("handle", "tag", "op", "stack")}
        )
        record = build_callstack_map(turned, Generation.CALLSTACK_4)
        assert record != bytes(opened.records[CALLSTACKS].view())
        assert failure(replaced(opened, {CALLSTACKS: record})) == said
        text = said[said.index("Module hierarchy") :].removesuffix("\n  ")
        assert text in {str(opened.symbolicate(handle)) for handle in opened.handles}


def test_pytorch_refuses_a_map_with_one_handle_twice() -> None:
    data = saved("scripted", mobile=True)
    with archive.open(data) as opened:
        stacks = opened.handle_table
        assert stacks is not None
        same = replace(stacks, handle=stacks.handle * 0)
        forged = replaced(opened, {CALLSTACKS: build_callstack_map(same, Generation.CALLSTACK_4)})
    with pytest.raises(RuntimeError, match="Debug handles should be unique"):
        torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(forged))
