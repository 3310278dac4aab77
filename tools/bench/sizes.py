"""How small debug information becomes, and what that costs.

Peers: PyTorch's own records as it stores them (deflated), and xz, zstd and Parquet of the same rows.
"""

from __future__ import annotations

import importlib
import io
import lzma
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import zstandard

import archive
from archive.companion.build import build_companion
from archive.companion.contents import Contents
from archive.companion.layout import CompanionLayout
from archive.companion.parse import parse_companion
from archive.container.deflate import deflated_as_by_pytorch
from archive.formats.record_kinds import CALLSTACK_MAP, KINDS_IN_COLUMNS, METHOD_HANDLES, kind_of
from archive.io.mapped import Mapped
from archive.normalform.builder import FormBuilder
from archive.reader.collect import collect
from archive.reader.companion import Companion
from archive.rewrite.shrink import shrink
from archive.rewrite.split import split
from tools.bench.measuring import ORACLES, Aim, Table, best
from tools.models import built

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive import Archive

    Row = tuple[str, ...]

SIZES = ("bert", "bert-inline", "gpt", "resnet", "resnet-traced", "encoder48", "encoder48.ptl")
GRAPHS = ("fx-1k", "fx-2k", "fx-8k", "fx-100k")
GROWTH = ("fx-1k", "fx-100k", "fx-1m")
WHOLE = ("bert", "resnet", "encoder48", "encoder48.ptl", "fx-2k", "fx-8k")
TRACED = ("bert", "bert-inline", "gpt", "resnet-traced", *GRAPHS)
LARGE = 1 << 23
"""Bytes of debug records, inflated, of which xz and Parquet take half a minute."""
LITE = (0.28, 0.20, 0.50, 0.20)
"""Of encoder48.ptl, what is to be left at most: split, without handles, compact, embedded."""
FEW = "names, texts and headers take 0.5 KB of any companion, and there are only 997 rows; of 2,005 it is 29x"
OFFSETS = "offsets in generated code take 0.4 KB"
SOURCE_TEXT = "of scripted models, source text is most of it"
TENSORS_AND_HEADERS = "tensors and zip headers take 0.12"
MANY = 20_000
PEAK = """
import sys
import archive

def peak():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])

def look(file, handle):
    with archive.open(file) as companion:
        str(companion.symbolicate(int(handle)))

look(sys.argv[1], sys.argv[2])
before = peak()
look(sys.argv[3], sys.argv[4])
print(peak() - before)
"""


def debug_records(opened: Archive) -> list[bytes]:
    """All debug records, inflated."""
    return [bytes(record.view()) for name, record in opened.records.items() if kind_of(name).is_debug]


def stored(opened: Archive) -> int:
    """Bytes of all debug records as PyTorch stores them."""
    return sum(record.stored_size for name, record in opened.records.items() if kind_of(name).is_debug)


def rows_of(opened: Archive) -> int:
    """Source-range rows and debug handles."""
    return len(opened.range_table) + len(opened.handles)


def parquet(opened: Archive) -> int:
    """Bytes of the same rows as Parquet, zstd at level 19: of a table each for ranges, handles and frames."""
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")

    table, handles = opened.range_table, opened.handle_table
    record = np.repeat(np.arange(len(table.names)), np.diff(table.first))
    sources = [table.sources[source] for source in range(len(table.sources))]
    texts = [str(source.text) for source in sources]
    files = [str(source.filename) for source in sources]
    names = [table.names[number] for number in record.tolist()]
    parts = [
        {
            "record": pa.array(names).dictionary_encode(),
            "offset": table.offset,
            "text": pa.DictionaryArray.from_arrays(table.source, pa.array(texts)),
            "file": pa.DictionaryArray.from_arrays(table.source, pa.array(files)),
            "line": table.sources.line[table.source],
            "start": table.start,
            "end": table.end,
            "tag": table.tag,
        }
    ]
    if handles is not None:
        operators = [str(handles.strings[name]) for name in handles.op.tolist()]
        columns = {"handle": handles.handle, "tag": handles.tag, "stack": handles.stack}
        parts.append({**columns, "op": pa.array(operators).dictionary_encode()})
        frames = ("next", "module", "call_tag", "function")
        parts.append({name: getattr(handles, name) for name in frames})
        method_table = opened.method_table
        assert method_table is not None
        parts.append({"instruction": method_table.value})
    size = 0
    for part in parts:
        out = io.BytesIO()
        pq.write_table(pa.table(part), out, compression="zstd", compression_level=19)
        size += len(out.getvalue())
    return size


@cache
def opened_of(name: str, folder: Path) -> Archive:
    """A model, which is read once for all tables."""
    return archive.open(built(name, folder))


@cache
def facts_of(name: str, folder: Path) -> Contents:
    """What its companion says."""
    return collect(opened_of(name, folder))


def companions(folder: Path) -> Iterator[Row | Aim]:
    """The companion against PyTorch's records and general compressors."""
    peers = ("PyTorch, deflated", "xz -9e", "zstd -19", "Parquet")
    yield ("model", "rows", *peers, "**companion**", "smaller", "B a row")
    for name in SIZES + GRAPHS:
        opened = opened_of(name, folder)
        size, rows = stored(opened), rows_of(opened)
        whole = b"".join(debug_records(opened))
        is_large = len(whole) > LARGE
        xz = 0 if is_large else len(lzma.compress(whole, preset=9 | lzma.PRESET_EXTREME))
        zstd = len(zstandard.compress(whole, 19))
        ours = len(build_companion(facts_of(name, folder)))
        sizes = (rows, size, xz, zstd, 0 if is_large else parquet(opened), ours)
        numbers = [f"{number:,}" if number else "-" for number in sizes]
        yield (name, *numbers, f"{size / ours:.1f}x", f"{ours / rows:.3f}")
        if name == "bert":
            yield Aim("companion of a traced BERT-like model", ours, 1_600, " B", reason=OFFSETS)
        if name in TRACED:
            what = f"companion of {name}, smaller than PyTorch's records"
            yield Aim(what, size / ours, 20, "x", more=True, reason=FEW if name == "fx-1k" else "")
        else:
            what = f"companion of {name}, scripted, of PyTorch's records"
            yield Aim(what, ours / size, 0.35, "x")
        yield Aim(f"companion of {name}, of the smallest peer", ours / min(filter(None, sizes[2:5])), 1, "x")


def call_stacks(folder: Path) -> Iterator[Row | Aim]:
    """What the call-stack map and the method handles take of a companion."""
    yield ("encoder48.ptl", "PyTorch, deflated", "of the companion", "ratio")
    facts = facts_of("encoder48.ptl", folder)
    whole = len(build_companion(facts))
    opened = opened_of("encoder48.ptl", folder)
    for what, tables, record in (
        ("call-stack map", ("handle", "frame", "module"), CALLSTACK_MAP),
        ("method handles", ("method", "instruction"), METHOD_HANDLES),
    ):
        left = {key: facts.columns[key] for key in facts.columns if key.partition(".")[0] not in tables}
        rest = len(build_companion(facts.with_columns(left)))
        size = len(deflated_as_by_pytorch(opened.records[record].view()))
        yield (what, f"{size:,}", f"{whole - rest:,}", f"{(whole - rest) / size:.3f}x")
        yield Aim(f"{what} in a companion, of PyTorch's", (whole - rest) / size, 0.25, "x")


def whole_files(folder: Path) -> Iterator[Row | Aim]:
    """Whole files, and what is left of them; compact's debug records against PyTorch's."""
    ours = ("companion", "split", "split, no handles", "compact", "its debug info", "embed")
    yield ("model", "file", "debug info in it", *ours)
    for name in WHOLE:
        source = built(name, folder)
        lite = name.endswith(".ptl")
        with tempfile.TemporaryDirectory() as place:
            out, companion = Path(place) / "out", Path(place) / "companion"
            compact = shrink(source, out, force=True)
            before, after = (
                sum(compact.kinds.get(kind, (0, 0))[side] for kind in KINDS_IN_COLUMNS) for side in (0, 1)
            )
            apart = split(source, out, companion, force=True)
            dropped = split(source, out, companion, handles="drop", force=True).out_size if lite else 0
            embedded = shrink(source, out, level="embed", force=True).out_size
        left = (apart.out_size, dropped or apart.out_size, compact.out_size, embedded)
        kept, without, compacted, inside = (f"{size:,} ({size / len(source):.0%})" for size in left)
        row = (f"{len(source):,}", f"{before:,}", f"{apart.companion_size:,}", kept, without, compacted)
        yield (name, *row, f"{after / before:.2f}x", inside)
        yield Aim(f"debug records of {name}, compact", after / before, 0.72, "x", reason=SOURCE_TEXT)
        if lite:
            for what, size, goal in zip(
                ("split", "split, no handles", "compact", "embed"), left, LITE, strict=True
            ):
                yield Aim(
                    f"{name}, {what}, of the file", size / len(source), goal, "x", reason=TENSORS_AND_HEADERS
                )


def encoded(opened: Archive) -> Contents:
    """The tables of an archive as a companion's contents."""
    form = FormBuilder.of(opened.range_table, opened.handle_table, opened.method_table)
    return Contents(bytes(16), form.form())


def growth(folder: Path) -> Iterator[Row | Aim]:
    """What encoding, opening and looking up cost as archives grow."""
    costs = ("encode, µs a row", "decode, µs a row", "mapped, bytes", "open mapped", "one range")
    yield ("model", "rows", *costs)
    for name in GROWTH:
        opened = opened_of(name, folder)
        rows = rows_of(opened)
        rounds = 1 if rows > MANY else 3
        encode = best(lambda: build_companion(encoded(opened)), rounds)  # noqa: B023
        facts = facts_of(name, folder)
        packed, mapped = build_companion(facts), build_companion(facts, CompanionLayout.MAPPED)
        decode = best(lambda: parse_companion(memoryview(packed)), rounds)  # noqa: B023
        with tempfile.NamedTemporaryFile(suffix=".ptdbg") as file:
            file.write(mapped)
            file.flush()
            opening = best(lambda: archive.open(file.name).close(), 200)
            with archive.open(file.name) as companion:
                known = companion._debug.known
                tags = np.random.default_rng(0).integers(0, len(facts.columns["range.tag"]), MANY).tolist()
                lookup = best(lambda: [known.range_of(tag) for tag in tags], 2) / MANY  # noqa: B023
        per_row = [f"{seconds / rows * 1e6:.2f}" for seconds in (encode, decode)]
        times = (f"{opening * 1e6:.0f} µs", f"{lookup * 1e6:.1f} µs")
        yield (name, f"{rows:,}", *per_row, f"{len(mapped):,}", *times)
        yield Aim(f"a mapped companion of {name}, opened", opening * 1e6, 100, " µs")
        if name != "fx-1k":
            yield Aim(f"encoding {name}", encode / rows * 1e6, 3, " µs a row", reason="LZMA is a third of it")


def handles(folder: Path) -> Iterator[Row | Aim]:
    """Look-ups of debug handles, in a map as it is and in one of about a million."""
    yield ("encoder48.ptl", "handles", "one handle's range, mapped", "peak of one, packed")
    once = facts_of("encoder48.ptl", folder)
    small, handle = folder / "small.ptdbg", "1445"
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        small.write_bytes(build_companion(collect(opened)))
    for times in (1, 6):
        facts = tiled(once, times)
        count = len(facts.columns["handle.handle"])
        chosen = np.random.default_rng(0).integers(0, count, MANY) + int(facts.columns["handle.handle"][0])
        companion = Companion(Mapped(build_companion(facts, CompanionLayout.MAPPED)))
        known = companion.opened.lookup
        listed = chosen.tolist()
        one = best(lambda: [known.range_of(known.tag_of(handle)) for handle in listed], 3) / MANY  # noqa: B023
        with tempfile.NamedTemporaryFile(suffix=".ptdbg") as file:
            file.write(build_companion(facts))
            file.flush()
            command = [sys.executable, "-c", PEAK, str(small), handle, file.name, str(listed[0])]
            peak = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)  # noqa: S603
        what = "as it is" if times == 1 else f"{times} times"
        yield (what, f"{count:,}", f"{one * 1e6:.1f} µs", f"{peak / 1024:.1f} MB")
        yield Aim(
            f"a look-up in {count:,} handles", one * 1e6, 10, " µs", reason="memory is not in the cache"
        )


def tiled(facts: Contents, times: int) -> Contents:
    """The same call-stack map several times, under ever higher handles."""
    columns = dict(facts.columns)
    count = len(columns["handle.handle"])
    for name, values in facts.columns.items():
        if name.startswith("handle."):
            step = count if name in ("handle.handle", "handle.place") else 0
            columns[name] = np.concatenate([values + turn * step for turn in range(times)])
    return facts.with_columns(columns)


PARTS = {
    "Whole files": whole_files,
    "Companion files": companions,
    "Call stacks and handles": call_stacks,
    "Cost of companions as archives grow": growth,
    "Look-ups by debug handle": handles,
}


def measure(folder: Path) -> Iterator[Table | Aim]:
    """All of these."""
    for title, part in PARTS.items():
        results = list(part(folder / "models"))
        headings, *rows = (result for result in results if not isinstance(result, Aim))
        yield Table(title, headings, rows)
        yield from (result for result in results if isinstance(result, Aim))
