"""Decoding and encoding large records, what is copied meanwhile, and the command against PyTorch.

Decoding has two peers: Python's unpickler in C, to which classes are lists, and the tests' slow reader, a
stack machine in plain Python. The command's peer is a process that imports PyTorch and runs the failing call.
"""

from __future__ import annotations

import io
import linecache
import pickle
import subprocess
import sys
import tracemalloc
import types
import warnings
from functools import partial
from typing import TYPE_CHECKING

import torch

import archive
from archive.formats.callstack_map import build_callstack_map, generation, parse_callstack_map
from archive.formats.record_kinds import CALLSTACK_MAP
from archive.formats.source_ranges import build_source_ranges, read_source_ranges
from archive.pickles.scan import Pickle, scan
from archive.pickles.tree import read_trees
from tests.support import slow_reader
from tools.bench.measuring import COMMAND, ORACLES, Aim, Table, best, in_turn, run
from tools.models import built, inline_texts, saved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from archive import Archive
    from archive.debuginfo.handle_tables import HandleTable
    from archive.debuginfo.tables import RangeTable

    Cells = tuple[str, str, str, str]

OPS = 5_000
BY_TORCH = """
import warnings; warnings.simplefilter("ignore")
import torch
from torch.jit.mobile import _load_for_lite_interpreter
try:
    _load_for_lite_interpreter("plain_stack.ptl")(torch.ones(1, 5))
except RuntimeError as error:
    print(error)
"""


class Long(torch.nn.Module):
    """As many operations as are asked for, each with its own place in a trace."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Nothing useful."""
        for step in range(OPS):
            x = torch.add(x, 1.0) if step % 3 else torch.mul(x, x)
        return x


LOOP = "an interpreted loop takes 200 to 300 ns a token"
COMPILED = (
    "an unboxed loop of mypyc takes 27, but no command half its time, and it would be a second loop "
    "(docs/decisions/compiled.md)"
)


def inline_model() -> bytes:
    """A traced model of many operations, saved with inline texts."""
    traced = torch.jit.trace(Long(), torch.ones(1), check_trace=False)
    with inline_texts():
        return saved(traced)


class Inert(pickle.Unpickler):
    """The C unpickler, where each class that a pickle names is a list."""

    def find_class(self, module: str, name: str) -> type:  # noqa: ARG002 (as the base class has it)
        """Something that does nothing."""
        return list


def read_ranges(pickles: list[Pickle]) -> RangeTable:
    """A record of source ranges as columns."""
    return read_source_ranges(pickles, [False])


def read_handles(pickles: list[Pickle]) -> HandleTable:
    """A call-stack map as columns."""
    return parse_callstack_map(read_trees(pickles, [False]), 0)


def decoding(
    title: str, data: memoryview, parse: Callable[[list[Pickle]], object], goal: float = 0
) -> Iterator[Cells | Aim]:
    """Rows of one record, to values and to columns; and the aim of the latter in milliseconds, if any."""
    pickles = [Pickle("record", data)]
    raw = bytes(data)
    peer, decode, columns = in_turn(
        lambda: Inert(io.BytesIO(raw)).load(),
        lambda: scan(pickles),
        lambda: parse(pickles),
        rounds=2,
    )
    note = f"{peer * 1e3:.0f} ms"
    yield f"{title}: decode to values", f"{decode / peer:.2f}x", "the C unpickler", note
    yield f"{title}: decode to columns", f"{columns / peer:.2f}x", "the C unpickler", note
    if goal:
        yield Aim(f"{title}, decoded to columns", columns * 1e3, goal, " ms", reason=LOOP, tried=COMPILED)


def peak(work: Callable[[], object]) -> int:
    """The most bytes that some work holds at once."""
    tracemalloc.start()
    result = work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del result
    return most


def largest(opened: Archive) -> str:
    """The record of source ranges that has the most bytes."""
    return max(opened.range_records, key=lambda name: opened.records[name].size)


def plainly(folder: Path) -> Iterator[Cells]:
    """Decoding in columns against the plain way: a stack machine of Python objects."""
    with archive.open(built("fx-2k", folder)) as ranges, archive.open(built("encoder48.ptl", folder)) as lite:
        texts = [bytes(ranges.records[largest(ranges)].view()), bytes(lite.records[CALLSTACK_MAP].view())]
    ways: list[tuple[str, bytes, Callable[[bytes], object], Callable[[list[Pickle]], object]]] = [
        ("source ranges", texts[0], slow_reader.source_ranges, read_ranges),
        ("call-stack map", texts[1], slow_reader.callstack_map, read_handles),
    ]
    for title, data, slow, fast in ways:
        pickles = [Pickle("record", memoryview(data))]
        peer, ours = (lambda: slow(data)), (lambda: fast(pickles))  # noqa: B023 (used at once)
        times = best(ours, 3), best(peer, 1)
        held = peak(ours), peak(peer)
        yield (
            f"{title}, {len(data):,} B: rows",
            f"{times[0] / times[1]:.3f}x time, {held[0] / held[1]:.3f}x memory",
            "the slow reader",
            f"{times[0] * 1e3:.0f} ms against {times[1]:.2f} s, {held[0] >> 20} against {held[1] >> 20} MiB",
        )


def records(folder: Path) -> Iterator[Cells | Aim]:
    """Decoding and encoding of large records."""
    for title, model, goal in (
        ("source ranges", built("fx-100k", folder), 450),
        ("inline rows", inline_model(), 0),
    ):
        with archive.open(model) as opened:
            record = largest(opened)
            data = opened.records[record].view()
            rows = len(opened.ranges(record))
            of = f"{title}, {len(data) / 1e6:.1f} MB, {rows:,} rows"
            yield from decoding(of, data, read_ranges, goal)
            ranges = opened.range_table
            number = ranges.numbers[record]
            made: list[bytes] = []
            encode = best(lambda: made.append(build_source_ranges(ranges, number)), 2)  # noqa: B023 (used at once)
            yield (
                f"{title}: encode",
                f"{encode / rows * 1e6:.1f} µs a row",
                "",
                f"exact: {made[0] == bytes(data)}",
            )
    with archive.open(built("encoder48.ptl", folder)) as opened:
        data = opened.records[CALLSTACK_MAP].view()
        handles = opened.handle_table
        assert handles is not None
        of = f"call stacks, {len(data) / 1e6:.1f} MB, {len(handles):,} rows"
        yield from decoding(of, data, read_handles, 120)
        encode = best(lambda: made.append(build_callstack_map(handles, generation(handles))), 2)
        row = f"{encode / len(handles) * 1e6:.1f} µs a row"
        yield "call stacks: encode", row, "", f"exact: {made[-1] == bytes(data)}"


def long_source() -> bytes:
    """A scripted model whose source is long, saved with inline texts."""
    lines = "".join(
        f"        x = torch.relu(x)  # step {step}: {'why, at length; ' * 20}\n" for step in range(2_000)
    )
    code = (
        f"import torch\nclass Wordy(torch.nn.Module):\n    def forward(self, x):\n{lines}        return x\n"
    )
    name = "wordy.py"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    space: dict[str, type[torch.nn.Module]] = {"__name__": "wordy"}  # type: ignore[dict-item]
    sys.modules["wordy"] = types.ModuleType("wordy")
    sys.modules["wordy"].__file__ = name
    exec(compile(code, name, "exec"), space)  # noqa: S102 (our own source, under a file name of its own)
    with inline_texts():
        return saved(torch.jit.script(space["Wordy"]()))


def memory() -> Iterator[Cells]:
    """Whether any text is copied: what is allocated besides the inflated record and the columns."""
    data = long_source()
    archive.open(data).range_table  # noqa: B018 (imports and caches are not counted)
    tracemalloc.start()
    with archive.open(data) as opened:
        ranges = opened.range_table
        strings = ranges.sources.strings
        texts = int(strings.length.sum())
        inflated = sum(sys.getsizeof(opened.records[name].view().obj) for name in opened.range_records)
        arrays = [*vars(ranges).values(), *vars(ranges.sources).values()]
        columns = sum(array.nbytes for array in arrays if hasattr(array, "nbytes"))
        columns += strings.buffer.nbytes + strings.start.nbytes + strings.length.nbytes
        held = tracemalloc.get_traced_memory()[0] - inflated - columns
    tracemalloc.stop()
    note = f"{texts:,} B of text; {held:,} B held besides the inflated record and its columns"
    yield "texts copied", f"{held / texts:.3f}x", "the texts", note


def processes() -> Iterator[Cells]:
    """The command, whole process, against PyTorch."""
    ours = [*COMMAND, "symbolicate", "plain_stack.ptl", "1445"]
    peer = [sys.executable, "-c", BY_TORCH]
    times = in_turn(*(partial(run, *words, folder=ORACLES) for words in (ours, peer)), rounds=2)
    texts = [subprocess.check_output(words, text=True, cwd=ORACLES) for words in (ours, peer)]  # noqa: S603 (ours)
    note = f"{times[1]:.1f} s; same text: {texts[0] in texts[1]}"
    yield "symbolicate, a whole process", f"{times[0] / times[1]:.2f}x", "PyTorch", note


def measure(folder: Path) -> Iterator[Table | Aim]:
    """All of these."""
    warnings.simplefilter("ignore")
    models = folder / "models"
    results = [*records(models), *plainly(models), *memory(), *processes()]
    rows = [result for result in results if not isinstance(result, Aim)]
    yield Table("Records", ("what", "measured", "against", "note"), rows)
    yield from (result for result in results if isinstance(result, Aim))
