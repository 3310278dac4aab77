"""Tokens in what is made of models: embedded, split, small and migrated archives, shared objects."""

from __future__ import annotations

import io
import lzma
import zipfile
from typing import TYPE_CHECKING

import pytest

import archive
from tests.support.corpus import FIXTURES
from tests.support.scanner import tokens_in
from tests.support.tokens import CANARIES, planted_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PUBLISHED = {"basename", "lines", "source", "root", "inputs", "extra"}
PLANTED = {
    b"/opt/cache/torchinductor": b"/opt/cache/zqcachedirxz/",
    b"/opt/py/lib": b"/zqpypathxz",
    b"models/mixer.py": b"model/zqfilexz/",
}
"""Parts of paths in compiled packages, and tokens of the same length."""


def embedded(path: Path, out: Path) -> None:
    archive.shrink(path, out, level="embed")


def small(path: Path, out: Path) -> None:
    archive.shrink(path, out, level="compact")


def left(path: Path, out: Path) -> None:
    archive.split(path, out, out.with_suffix(".ptdbg"))


def of_another_release(path: Path, out: Path) -> None:
    out.write_bytes(archive.migrate(path, to="1.9", lossy=True).data)


def published(source: Path | bytes) -> set[str]:
    """The tokens that are left for everybody; a join gives the records back."""
    out, companion, back = io.BytesIO(), io.BytesIO(), io.BytesIO()
    facts = archive.redact(source, out, companion, preset="publish")
    assert archive.join(out.getvalue(), companion.getvalue(), back).exact == facts.exact
    data = source if isinstance(source, bytes) else source.read_bytes()
    assert facts.exact == (back.getvalue() == data)
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(back) as after:
        assert {name: before.read(name) for name in before.namelist()} == {
            name: after.read(name) for name in after.namelist()
        }
    return set(tokens_in(out.getvalue()))


MADE = [
    *((name, make) for name in ("scripted.ptl", "lowered.ptl") for make in (embedded, small, left)),
    *(("exported.pt2", make) for make in (embedded, left)),
    *((name, of_another_release) for name in ("scripted.ptl", "traced.pt", "lowered.ptl")),
]


@pytest.mark.parametrize(("name", "make"), MADE)
def test_nothing_is_left_in_what_other_commands_made(
    name: str, make: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    path, made = CANARIES / name, tmp_path / name
    make(path, made)
    planted = planted_in(path)
    assert set(tokens_in(made.read_bytes())) & {one.token for one in planted if one.goes in PUBLISHED}
    assert published(made) <= {one.token for one in planted if one.goes not in PUBLISHED}


def with_tokens(name: str) -> bytes:
    """A compiled package in whose records parts of paths are tokens."""
    out = io.BytesIO()
    data = lzma.decompress((FIXTURES / "compiled" / f"{name}.pt2.xz").read_bytes())
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            for old, new in PLANTED.items():
                content = content.replace(old, new)
            target.writestr(zipfile.ZipInfo(info.filename), content, info.compress_type)
    return out.getvalue()


@pytest.mark.parametrize("name", ["compiled", "profiled"])
def test_no_path_is_left_in_shared_objects_and_beside_them(name: str) -> None:
    data = with_tokens(name)
    before = tokens_in(data)
    assert {"zqcachedirxz", "zqpypathxz"} <= before.keys()
    assert any(place.endswith(".so") for place in before["zqcachedirxz"])
    assert published(data) == set()


@pytest.mark.torch
def test_a_redacted_package_computes_the_same_and_fails_alike(tmp_path: Path) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.running_compiled import failure, outcome  # noqa: PLC0415 (needs PyTorch)

    path, out = tmp_path / "before.pt2", tmp_path / "after.pt2"
    path.write_bytes(with_tokens("profiled"))
    archive.redact(path, out, tmp_path / "private.ptdbg", preset="publish")
    assert outcome(out) == outcome(path)
    assert failure(out).splitlines()[0] == failure(path).splitlines()[0]
