"""Redacted archives: the same model, the same lines and handles, nothing of what was removed."""

from __future__ import annotations

import io
import re
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from tests.support.commands import run
from tests.support.corpus import ARCHIVES, FIXTURES, ORACLES, RELEASES
from tests.support.exported import PROGRAMS
from tests.support.halves import joined, redacted
from tests.support.sampling import crossed, sampled
from tests.support.scanner import holds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CHOICES = [("basename", "keep"), ("relative", "lines"), ("none", "none")]
PACKAGE = FIXTURES / "kinds" / "package.pt"
MODEL = ORACLES / "plain_stack.ptl"
SAMPLE = [path for path in ARCHIVES if b"debug_pkl" in path.read_bytes()][::24] + PROGRAMS[::10]
SOME = sampled(SAMPLE, 7, by=[lambda path: path.suffix])


def lines(opened: archive.Archive) -> list[tuple[int, int]]:
    """The line and handle or node of everything that has one."""
    table = opened.range_table
    found = [(int(table.tag[row]), table.source_range(row).line) for row in range(len(table))]
    for program in opened.programs.values():
        for site in program.sites.values():
            found += [(0, frame.line) for frame in (site.frames.frames if site.frames else ())]
    return found


def columns(opened: archive.Archive) -> list[int]:
    """The byte of its line that each source range begins at."""
    table = opened.range_table
    spans = map(table.source_range, range(len(table)))
    return [span.start - bytes(span.source.text).rfind(b"\n", 0, span.start) for span in spans]


def messages(source: Path | bytes) -> set[str]:
    """What `verify` says, but for the name of the file."""
    return {f"{one.record}: {one.message}" for one in archive.verify(source)}


def sources(opened: archive.Archive) -> set[str]:
    """Paths, and lines of source text long enough to be no chance."""
    table, found = opened.range_table, set()
    for row in range(len(table)):
        source = table.source_range(row).source
        found |= {str(source.filename or ""), *map(str.strip, str(source.text).splitlines())}
    for program in opened.programs.values():
        for site in program.sites.values():
            for frame in site.frames.frames if site.frames else ():
                found |= {frame.file, frame.code or ""}
    return {one for one in found if len(one) >= 12}


@pytest.mark.parametrize(("path", "choice"), crossed(SOME, CHOICES))
def test_lines_and_model_stay_and_a_join_gives_the_original(path: Path, choice: tuple[str, str]) -> None:
    out, companion, facts = redacted(path, paths=choice[0], text=choice[1])
    assert (facts.is_clean, facts.unread) == (True, ())
    with archive.open(path) as before, archive.open(out) as after:
        assert after.archive_id == before.archive_id
        assert lines(after) == lines(before)
        assert columns(after) == columns(before) or "traced" in path.name
        if after.handle_table is not None:
            assert list(after.handle_table.handle) == list(before.handle_table.handle)  # type: ignore[union-attr]
    assert messages(out) <= messages(path)
    assert archive.digest(out) == archive.digest(path)
    back, exact = joined(out, companion)
    assert exact == facts.exact == (back == path.read_bytes())


@pytest.mark.parametrize("path", SOME, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_another_scanner_finds_nothing(path: Path) -> None:
    out, _, facts = redacted(path, paths="none", text="none")
    with archive.open(path) as opened:
        code = "".join(
            str(opened.records[name].view(), "utf-8") for name in opened.records if name.endswith(".py")
        )
        gone = [one for one in sources(opened) if one not in code and "(" not in one[-20:]]
    assert gone
    assert [one for one in gone if holds(path.read_bytes(), one)], "it does find them before"
    assert [one for one in gone if holds(out, one)] == []
    assert facts.sought["path"]
    assert facts.sought["line"]


def test_the_companion_explains_what_the_redacted_archive_reports(tmp_path: Path) -> None:
    out, companion = tmp_path / "out.ptl", tmp_path / "private.ptdbg"
    done = run("redact", MODEL, "-o", out, "-c", companion, "--paths", "basename", "--source", "none")
    assert done.returncode == 0
    assert b"Removed 5 paths, 7 folders, 27 lines; none left, in " in done.stdout
    original = run("symbolicate", MODEL, 1452).stdout
    assert run("symbolicate", out, "-c", companion, 1452).stdout == original
    places = re.findall(rb'"(?:.*/)?(.*)", line (\d+), in (.*)', original)
    assert re.findall(rb'"(.*)", line (\d+), in (.*)', run("symbolicate", out, 1452).stdout) == places


def test_marked_lines_stay_where_they_are(tmp_path: Path) -> None:
    out = tmp_path / "out.ptl"
    assert run("redact", MODEL, "-o", out, "-c", tmp_path / "c", "--source", "lines").returncode == 0
    shown = run("symbolicate", out, 1452).stdout.decode()
    assert "            x = self.blocks(x)\n                ~~~~~~~~~~~ <--- HERE\n" in shown
    assert "Block" in run("symbolicate", MODEL, 1452).stdout.decode()


def test_what_is_left_is_refused_with_its_place_and_listed_where_that_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    words = ["redact", PACKAGE, "-o", out, "-c", tmp_path / "c", "--paths", "none", "--source", "none"]
    done = run(*words)
    assert done.returncode == 1
    assert b"left: line def forward(self, x: torch.Tensor) -> torch.Tensor: in net.py\n" in done.stderr
    assert done.stderr.endswith(b"not clean, so nothing is written; --partial writes it anyway\n")
    assert list(tmp_path.iterdir()) == []
    assert b'"remaining": [' in run(*words, "--json").stdout
    done = run(*words, "--partial")
    assert done.returncode == 1
    assert out.exists()
    assert b"left: line return self.fc(x) * self.scale in net.py\n" in done.stdout
    assert b"Removed 1 path, 1 root folder; 3 of 3 lines left, in " in done.stdout


def test_folders_and_maps(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for path in (MODEL, PROGRAMS[0], PACKAGE):
        (models / path.name).write_bytes(path.read_bytes())
    words = ["redact", models, "-o", tmp_path / "out", "-c", tmp_path / "private", "--source", "none"]
    done = run(*words, "--map", "/opt/py=python", "-j", 1)
    assert done.returncode == 1, "the package has its source in a record of its own"
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == sorted([MODEL.name, PROGRAMS[0].name]), "the manifest has paths of the original"
    assert b"/opt/py=python" in (tmp_path / "private" / "manifest.jsonl").read_bytes()
    assert holds(MODEL.read_bytes(), "/opt/py/lib")
    assert not holds((tmp_path / "out" / MODEL.name).read_bytes(), "/opt/py/lib")
    assert holds((tmp_path / "out" / MODEL.name).read_bytes(), "python/lib/python3.11/site-packages")


def test_a_second_run_says_again_what_is_left(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for path in (MODEL, PACKAGE):
        (models / path.name).write_bytes(path.read_bytes())
    words = ["redact", models, "-o", tmp_path / "out", "-c", tmp_path / "private", "--source", "none"]
    for _ in range(2):
        done = run(*words, "-j", 1, "--partial")
        assert done.returncode == 1
        assert b"3 of 3 lines left" in done.stdout
    assert b"plain_stack.ptl: same\n" in done.stdout
    assert b"done again: something was left in it" in done.stdout
    assert run(*words, "-j", 1, "--partial", "--dry-run").returncode == 1


def test_a_model_without_debug_info_is_written_and_searched_all_the_same(tmp_path: Path) -> None:
    split = tmp_path / "split.ptl"
    archive.split(MODEL, split, tmp_path / "c", handles="drop")
    _, _, facts = redacted(split, paths="none", text="none")
    assert facts.sought == dict.fromkeys(("path", "folder", "line", "name", "root", "file"), 0)
    assert (facts.rewritten, facts.gone, facts.is_clean) == ((), (), True)


def test_what_a_map_puts_in_the_place_of_paths_may_be_published() -> None:
    for target in ("/usr/src/shop/", "/home/ann/shop/", "C:\\Users\\ann\\shop\\"):
        out = io.BytesIO()
        facts = archive.redact(
            FIXTURES / "exported" / "shop.pt2",
            out,
            io.BytesIO(),
            preset="publish",
            maps=[f"models/={target}"],
        )
        assert facts.is_clean
        found = archive.leaks(out.getvalue()).counted()
        assert {one.text for one in found} - {"ann"} == {f"{target}shop.py"}


def test_what_pytorch_refuses_of_the_original_too_is_told_so() -> None:
    facts = archive.redact(FIXTURES / "canaries" / "enums.ptl", io.BytesIO(), io.BytesIO(), preset="publish")
    assert facts.refused
    assert all(one.endswith("; the original is refused likewise") for one in facts.refused)


def test_lines_that_no_range_is_on_do_not_tell_their_lengths() -> None:
    out, _, _ = redacted(MODEL, paths="keep", text="none")
    with archive.open(MODEL) as before, archive.open(out) as after:
        old, new = (_lines_of(opened) for opened in (before, after))
    lengths = [
        (len(one), len(other)) for a, b in zip(old, new, strict=True) for one, other in zip(a, b, strict=True)
    ]
    assert all(b in (a, 1) for a, b in lengths)
    hidden = sum(b == 1 < a for a, b in lengths)
    assert hidden > len(lengths) / 3
    assert any(a == b > 1 for a, b in lengths)


def _lines_of(opened: archive.Archive) -> list[list[bytes]]:
    table = opened.range_table
    return [bytes(table.source_range(row).source.text).split(b"\n") for row in range(len(table))]


# --- Bytes of a storage that no tensor shows are told


PUBLISHED = [FIXTURES / "kinds" / "checkpoint.pt", RELEASES / "torch-2.13.0" / "nested.pt"]


def _text(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


def _numbers(*numbers: int) -> bytes:
    return b"(" + b"".join(b"K%c" % number for number in numbers) + b"t"


def checkpoint(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, size: int) -> bytes:
    """What ``torch.save`` writes of one tensor with a storage of float32."""
    storage = (
        b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text("0") + _text("cpu") + b"K%ctQ" % size
    )
    tensor = b"(" + storage + b"K%c" % offset + _numbers(*shape) + _numbers(*strides) + b"\x89ccollections\n"
    data = b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n" + tensor + b"OrderedDict\n)RtR."
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr(zipfile.ZipInfo("m/data.pkl"), data)
        made.writestr(zipfile.ZipInfo("m/byteorder"), b"little")
        made.writestr(zipfile.ZipInfo("m/data/0"), np.arange(1, size + 1, dtype="<f4").tobytes())
        made.writestr(zipfile.ZipInfo("m/version"), b"3\n")
    return out.getvalue()


def told(data: bytes) -> Iterator[str]:
    facts = archive.redact(data, io.BytesIO(), io.BytesIO(), preset="publish", partial=True)
    return (one for one in facts.stays if "no tensor shows" in one)


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "shown"),
    [
        ((8,), (1,), 0, range(8)),
        ((3,), (1,), 2, range(2, 5)),
        ((4,), (2,), 0, range(0, 8, 2)),
        ((2, 9), (1, 0), 0, range(2)),
    ],
)
def test_bytes_that_no_tensor_shows_are_told(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, shown: range
) -> None:
    numbers = np.arange(1, 9, dtype="<f4")
    numbers[list(shown)] = 0
    hidden = np.count_nonzero(np.frombuffer(numbers.tobytes(), np.uint8))
    expected = [f"{hidden} bytes of data/0 that no tensor shows, and that are not 0"] if hidden else []
    assert list(told(checkpoint(shape, strides, offset, 8))) == expected


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_whole_tensors_hide_nothing(path: Path) -> None:
    assert list(told(path.read_bytes())) == []
