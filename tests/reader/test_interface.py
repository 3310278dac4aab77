"""The package as its users meet it: names, version, reprs, help, and what importing it imports."""

from __future__ import annotations

import pydoc
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError, LimitError
from tests.support.corpus import CALLSTACKS, FIXTURES, ORACLES, RELEASES
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"


def test_the_package_offers_its_names() -> None:  # which `tests/project/public_api.txt` lists
    assert {getattr(archive, name).__name__ for name in archive.__all__} == set(archive.__all__)
    assert set(archive.__all__) <= set(dir(archive))
    assert issubclass(LimitError, ArchiveError)
    with pytest.raises(AttributeError, match="module 'archive' has no attribute 'nothing'"):
        getattr(archive, "nothing")  # noqa: B009 (type checkers would refuse the name)


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((FIXTURES.parent / "pyproject.toml").read_text("utf-8"))["project"]
    assert archive.__version__ == project["version"]


def test_a_repr_says_what_has_been_read_and_reads_nothing(tmp_path: Path) -> None:
    path, out, companion = ORACLES / "plain_stack.ptl", tmp_path / "out.ptl", tmp_path / "c.ptdbg"
    archive.split(path, out, companion)
    with archive.open(path) as opened:
        assert repr(opened) == f"<Archive {str(path)!r}, 27 records>"
        assert opened.handles
        assert repr(opened) == f"<Archive {str(path)!r}, 27 records, 61 handles>"
        assert repr(opened.handles) == "<FactMapping of 61 facts>"
        rows = opened.ranges("code/__torch__/plain.py")
        assert repr(rows) == f"<RangeRows of 'code/__torch__/plain.py.debug_pkl', {len(rows)} rows>"
        assert len(repr(opened.symbolicate(1452))) < 1000  # without the source
    with archive.open(companion) as opened:
        assert opened.companion is not None
        known = opened.companion.archive_id.hex()
        assert repr(opened.companion) == f"<Companion {str(companion)!r}, packed, of archive {known}>"
        assert repr(opened) == f"<Archive {str(companion)!r}, a companion alone>"
        assert opened.records
        assert opened.handles
        assert repr(opened) == f"<Archive {str(companion)!r}, a companion alone, 9 records, 61 handles>"
    with archive.open(out, companion=companion) as opened:
        assert repr(opened) == f"<Archive {str(out)!r}, with companion {str(companion)!r}>"
        assert opened.records
        assert repr(opened) == f"<Archive {str(out)!r}, with companion {str(companion)!r}, 26 records>"


def test_a_repr_of_a_broken_archive_raises_nothing() -> None:
    with archive.open(tampered(NESTED, {CALLSTACKS: b"nothing"}), name="m.ptl") as opened:
        with pytest.raises(ArchiveError):
            _ = opened.handle_table
        assert repr(opened) == f"<Archive 'm.ptl', {len(opened.records)} records>"


def test_reprs_of_results_and_limits_are_short() -> None:
    migrated = archive.migrate(NESTED, to="1.9", lossy=True)
    assert migrated.data
    assert len(repr(migrated)) < 2000 < len(migrated.data)
    assert repr(archive.Limits()) == "Limits()"
    assert repr(archive.Limits(frames=7)) == "Limits(frames=7)"


def test_help_on_open_names_arguments_errors_and_an_example() -> None:
    text = pydoc.plain(pydoc.render_doc(archive.open))
    assert all(f"\n    {part}:\n" in text for part in ("Args", "Returns", "Raises", "Example"))
    assert "limits: 'Limits' = Limits()," in text


def test_importing_and_reading_import_no_pytorch() -> None:
    program = f"""
import sys, archive
assert not {{"numpy", "archive.reader"}} & set(sys.modules)
with archive.open({str(ORACLES / "lowered_shape.ptl")!r}) as opened:
    assert opened.symbolicate([1, 26]).frames and opened.lowered and opened.bytecode and opened.generations
assert not [name for name in sys.modules if name.partition(".")[0] in ("torch", "click", "rich")]
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=FIXTURES.parent)
