"""Exported programs, ETRecords and AOTInductor packages among the fixtures, and files made of them."""

from __future__ import annotations

import io
import json
import lzma
import tempfile
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import archive
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXPORTED = FIXTURES / "exported"
PROGRAMS = sorted(EXPORTED.glob("*.pt2"))
METADATA = ("stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack", "from_node", "custom")


@cache
def trees(path: Path) -> dict[str, Any]:
    """The JSON of each program of an archive, by the program's name."""
    with zipfile.ZipFile(path) as opened:
        names = [name for name in opened.namelist() if name.partition("/")[2].startswith("models/")]
        return {Path(name).stem: json.loads(opened.read(name)) for name in names}


def nodes(value: object) -> Iterator[dict[str, Any]]:
    """All nodes, wherever they stand in the JSON: slow, and with no idea of graphs."""
    if isinstance(value, dict):
        if {"target", "inputs", "metadata"} <= value.keys():
            yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


def texts(key: str) -> list[str]:
    """The different texts of a kind of metadata in all fixtures."""
    return _texts().get(key, [])


@cache
def _texts() -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for path in PROGRAMS:
        for tree in trees(path).values():
            for node in nodes(tree):
                for key, text in node["metadata"].items():
                    found.setdefault(key, set()).add(text)
    return {key: sorted(some) for key, some in found.items()}


# --- ETRecords among the fixtures, what ExecuTorch's Inspector says of them, and records made of them


RECORDS = FIXTURES / "executorch"
ETRECORDS = sorted(path.stem for path in RECORDS.glob("*.etrecord"))
INSPECTED = sorted(path.name.partition(".")[0] for path in RECORDS.glob("*.inspector.json"))


def record(name: str) -> Path:
    """The file of an ETRecord."""
    return RECORDS / f"{name}.etrecord"


def inspected(name: str) -> list[dict[str, Any]]:
    """What the Inspector says of each instruction that ran."""
    return json.loads((RECORDS / f"{name}.inspector.json").read_text("utf-8"))  # type: ignore[no-any-return]


def log(name: str) -> bytes:
    """What the runtime printed of calls that failed."""
    return (RECORDS / f"{name}.log.txt").read_bytes()


def changed_record(name: str, **contents: bytes | None) -> bytes:
    """An ETRecord with other contents of some records; None takes one out."""
    out = BytesIO()
    with zipfile.ZipFile(record(name)) as source, zipfile.ZipFile(out, "w") as target:
        for one in source.namelist():
            content = contents.get(one, source.read(one))
            if content is not None:
                target.writestr(one, content)
    return out.getvalue()


# --- AOTInductor packages among the fixtures


COMPILED = FIXTURES / "compiled"
PACKAGES = ("compiled", "plain", "profiled", "several", "sources")


@cache
def package(name: str) -> bytes:
    """The bytes of a package, some of which are stored compressed."""
    path = COMPILED / f"{name}.pt2"
    return path.read_bytes() if path.exists() else lzma.decompress(path.with_suffix(".pt2.xz").read_bytes())


def written(name: str, folder: Path) -> Path:
    """A package in a file of its own."""
    path = folder / f"{name}.pt2"
    path.write_bytes(package(name))
    return path


@cache
def package_halves(name: str, **options: Any) -> tuple[bytes, bytes]:  # noqa: ANN401 (those of split)
    """What a split leaves of a package, and the companion."""
    with tempfile.TemporaryDirectory() as folder:
        small, aside = Path(folder, "small.pt2"), Path(folder, "model.ptdbg")
        archive.split(written(name, Path(folder)), small, aside, **options)
        return small.read_bytes(), aside.read_bytes()


def member(name: str, file: str) -> bytes:
    """A file of a package, by its name without root."""
    with zipfile.ZipFile(io.BytesIO(package(name))) as opened:
        return opened.read(f"{name}/{file}")


def changed_package(name: str, contents: Mapping[str, bytes], folder: Path) -> Path:
    """A package with other contents of some files, or further files."""
    path = folder / f"{name}_changed.pt2"
    with zipfile.ZipFile(io.BytesIO(package(name))) as source, zipfile.ZipFile(path, "w") as target:
        kept = {one.partition("/")[2]: source.read(one) for one in source.namelist()}
        for file, content in (kept | dict(contents)).items():
            target.writestr(f"{name}/{file}", content)
    return path
