"""PyTorch asked again what it was asked when the fixtures were made: calls that fail, and calls that work."""

from __future__ import annotations

import io
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import archive
from archive.container.write import member_from, new_member, write_archive
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import build_source_ranges
from tests.support.corpus import ORACLES, RELEASES
from tests.support.strategies import Range, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive import Archive


pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

LIBRARIES = [
    Path(torch.__file__).parent / "lib" / name
    for name in ("libbackend_with_compiler.so", "libjitbackend_test.so")
]
CURRENT = RELEASES / "torch-2.13.0"
FRAMES = re.compile(r"^(?:\s*frame #\d+.*|<omitting python frames>)\n", re.MULTILINE)
LOCATION = re.compile(r"Exception raised from .*")
TENSOR = re.compile(r"(?P<type>[a-z0-9]+)\[(?P<shape>[\d, ]*)\]")
ROWS = (torch.arange(8).float().reshape(2, 4),)
PAIR = (torch.ones(2, 3), torch.ones(2, 3) * 3)
GOOD = {"unicode": PAIR, "lowered": PAIR, "host": PAIR, "consts": (torch.arange(8).float(),)}
"""Arguments that a model takes; the others take ROWS."""


class Call(NamedTuple):
    """One call, and the text that PyTorch 2.13 failed with when the fixtures were made."""

    path: Path
    method: str
    arguments: tuple[object, ...]
    error: str


def have_backends() -> None:
    """Load the demo backends, or skip the test."""
    for library in LIBRARIES:
        if not library.exists():
            pytest.skip("this build of PyTorch does not bring the demo backends")
        torch.ops.load_library(str(library))


def argument(text: str) -> object:
    """What ``float32[2, 3]``, ``ones[2, 3]`` or ``2`` stands for: tensors are of ones."""
    found = TENSOR.fullmatch(text)
    if not found:
        return int(text)
    shape = [int(size) for size in found["shape"].split(",")]
    return torch.ones(
        shape, dtype=torch.float32 if found["type"] == "ones" else getattr(torch, found["type"])
    )


def clean(text: str) -> str:
    """A text without what differs from machine to machine."""
    return LOCATION.sub("Exception raised from <C++ location>", FRAMES.sub("", text))


def loaded(path: Path) -> Callable[..., object]:
    """A model: ``.ptl`` by the lite interpreter, ``.pt`` by TorchScript."""
    model = torch.jit.mobile._load_for_lite_interpreter if path.suffix == ".ptl" else torch.jit.load
    made: Callable[..., object] = model(str(path))
    return made


def called(path: Path, method: str, arguments: tuple[object, ...]) -> object:
    """What a method of a model returns."""
    model = loaded(path)
    if method == "forward":
        return model(*arguments)
    if path.suffix == ".ptl":
        return model.run_method(method, *arguments)  # type: ignore[attr-defined]
    return getattr(model, method)(*arguments)


def failure(path: Path, method: str, arguments: tuple[object, ...]) -> str:
    """What a method of a model fails with."""
    with pytest.raises((RuntimeError, IndexError)) as caught:
        called(path, method, arguments)
    return clean(str(caught.value))


@cache
def cases() -> tuple[Call, ...]:
    """The calls of the oracles that fail."""
    listed = json.loads((ORACLES / "manifest.json").read_text("utf-8"))
    found = []
    for case in listed:
        for file in case.get("files", []) if case["kind"] != "ok" else []:
            text = ORACLES / f"{case['case']}{'' if file.endswith('.ptl') else '.jit'}.txt"
            arguments = tuple(map(argument, case["args"]))
            found.append(Call(ORACLES / file, "forward", arguments, text.read_text("utf-8")))
    return tuple(found)


@cache
def answers() -> tuple[Call, ...]:
    """The calls of 2.13's archives that fail."""
    found = []
    for made in json.loads((CURRENT / "made.json").read_text("utf-8"))["files"]:
        for one in made["oracle"].get("errors") or made["oracle"]["lite_errors"]:
            arguments = tuple(map(argument, one["args"]))
            error = (
                one["error"]
                .partition(": ")[2]
                .replace("<C++ location>", "Exception raised from <C++ location>")
            )
            found.append(Call(CURRENT / made["file"], one["method"], arguments, error))
    return tuple(found)


def result(path: Path, case: str) -> object:
    """What a model of 2.13 makes of arguments that it takes, or what it fails with nevertheless."""
    try:
        return called(path, "forward", GOOD.get(case, ROWS))
    except RuntimeError as error:
        return error


def loads(data: bytes) -> list[str]:
    """What TorchScript and, of archives for it, the lite interpreter fail with."""
    loaders = [torch.jit.load]
    if b"/bytecode.pkl" in data:
        loaders.append(torch.jit.mobile._load_for_lite_interpreter)
    errors = []
    for load in loaders:
        try:
            load(io.BytesIO(data))
        except (RuntimeError, torch.jit.Error) as error:
            errors.append(str(error))
        except UnicodeDecodeError as error:  # the message quotes one byte of a character
            errors.append(error.object.decode(errors="replace"))
    return errors


# --- PyTorch as the judge of excerpts: an archive whose nodes' source ranges are replaced, loaded, and asked


def replaced(opened: Archive, records: Mapping[str, bytes]) -> bytes:
    """The archive with other records, or more."""
    members = [
        member_from(record) for name, record in opened.container.records.items() if name not in records
    ]
    members += [new_member(name, data) for name, data in records.items()]
    out = io.BytesIO()
    write_archive(out, opened.root, members)
    return out.getvalue()


class Bench:
    """A model of many nodes: it takes a range for each, and tells how PyTorch prints it."""

    def __init__(self, size: int) -> None:
        made = torch.jit.script(type("Many", (torch.nn.Module,), {})())  # a class of its own: methods stay
        made.define("def forward(self, x):\n" + "    x = torch.neg(x)\n" * size + "    return x\n")
        out = io.BytesIO()
        torch.jit.save(made, out)
        self.opened = archive.open(out.getvalue())
        (self.name,) = self.opened.range_table.names
        self.offsets = [row.offset for row in self.opened.ranges(self.name)]
        numbers = [Range(b"%d" % row, 0, len(b"%d" % row)) for row in range(len(self.offsets))]
        said = self._printed(self._archive(numbers, RangeLayout.INLINE))
        self.nodes = {int(text.partition("Serialized ")[0]): node for node, text in enumerate(said) if text}
        self.suffixes = {row: said[node].removeprefix(f"{row}") for row, node in self.nodes.items()}
        self.rows = sorted(self.nodes)

    def _archive(self, ranges: Sequence[Range], layout: RangeLayout) -> bytes:
        return replaced(
            self.opened, {self.name: build_source_ranges(table_of(self.offsets, ranges, layout), 0)}
        )

    def _printed(self, data: bytes) -> list[str]:
        loaded = torch.jit.load(io.BytesIO(data))
        return [node.sourceRange() for node in loaded.graph.nodes()]

    def show(self, ranges: Sequence[Range], layout: RangeLayout) -> tuple[list[str], Archive]:
        """What PyTorch prints for up to ``len(rows)`` ranges, and the archive that it read them from."""
        placed = [Range(b"", 0, 0)] * len(self.offsets)
        for row, one in zip(self.rows, ranges, strict=False):
            placed[row] = one
        data = self._archive(placed, layout)
        printed = self._printed(data)
        used = self.rows[: len(ranges)]
        for row in used:
            assert printed[self.nodes[row]].endswith(self.suffixes[row])
        said = [printed[self.nodes[row]].removesuffix(self.suffixes[row]) for row in used]
        return said, archive.open(data)


def nodes(block: torch._C.Block) -> Iterator[torch._C.Node]:
    """The nodes of a block, and of the blocks in them."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes(inner)


def printed(data: bytes) -> list[str]:
    """The source range of every node of every method, as PyTorch prints it after loading."""
    loaded = torch.jit.load(io.BytesIO(data))
    graphs = [
        module._c._get_method(name).graph for module in loaded.modules() for name in module._c._method_names()
    ]
    return [text for graph in graphs for node in nodes(graph) if (text := node.sourceRange())]
