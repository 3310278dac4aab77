"""Redacted companions: they explain the same failures, with what rules leave of paths and lines."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.failures.explainer import LogExplainer
from tests.support.canaries import CANARIES
from tests.support.commands import run
from tests.support.corpus import ARCHIVES, ORACLES
from tests.support.exported import COMPILED, PROGRAMS, package
from tests.support.halves import halves
from tests.support.sampling import crossed
from tests.support.scanner import holds, tokens_in

if TYPE_CHECKING:
    from pathlib import Path

    from archive import CompanionRedaction

MODEL = ORACLES / "plain_stack.ptl"
SAMPLE = [MODEL, *[path for path in ARCHIVES if b"debug_pkl" in path.read_bytes()][::48], *PROGRAMS[::20]]


def redacted(companion: bytes, **choices: Any) -> tuple[bytes, CompanionRedaction]:  # noqa: ANN401
    out = io.BytesIO()
    facts = archive.redact_companion(companion, out, **choices)
    return out.getvalue(), facts


def places(data: bytes, companion: bytes) -> list[Any]:
    """What each row, handle and node leads to, without texts."""
    with archive.open(data, companion=companion) as opened:
        table = opened.range_table
        found: list[Any] = [
            (int(table.tag[row]), int(table.offset[row]), table.source_range(row).line)
            for row in range(len(table))
        ]
        if opened.handle_table is not None:
            found += list(opened.handle_table.handle)
        for program in opened.programs.values():
            for key, site in program.sites.items():
                frames = site.frames.frames if site.frames else ()
                found.append((key, site.modules, [(one.line, one.function) for one in frames]))
        return found


@pytest.mark.parametrize(
    ("path", "choice"),
    crossed(SAMPLE, [("basename", "none"), ("relative", "lines")]),
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else f"{one.parent.name}/{one.name}",
)
def test_each_row_handle_and_node_stays_on_its_line(path: Path, choice: tuple[str, str]) -> None:
    small, companion, _ = halves(path)
    public, facts = redacted(companion, paths=choice[0], text=choice[1])
    assert (facts.is_clean, facts.unread) == (True, ())
    assert places(small, public) == places(small, companion)
    assert archive.verify(public) == []
    assert not holds(public, "/opt/")


def test_handles_are_explained_with_what_is_left(tmp_path: Path) -> None:
    small, companion, public = (tmp_path / name for name in ("small.ptl", "own.ptdbg", "public.ptdbg"))
    archive.split(MODEL, small, companion)
    done = run("redact", companion, "-o", public, "--for", "vendor")
    assert done.returncode == 0
    assert b"Removed 4 paths, 7 folders, 15 lines; none left, in " in done.stdout
    shown = run("symbolicate", small, "-c", public, 1452).stdout
    assert b'File "torch/nn/modules/container.py", line' in shown
    assert b"            x = self.blocks(x)\n                ~~~~~~~~~~~ <--- HERE\n" in shown
    with archive.open(public) as opened, archive.open(companion) as before:
        assert opened.archive_id == before.archive_id
    joined = run("join", small, "-c", public, "-o", tmp_path / "back")
    assert joined.returncode == 2
    assert b"`redact` writes such ones to be given away" in joined.stderr


@pytest.mark.parametrize("name", ["scripted.ptl", "traced.pt", "exported_strict.pt2"])
def test_no_token_of_paths_and_source_is_left(name: str) -> None:
    companion = halves(CANARIES / name).companion
    assert "zquserxz" in tokens_in(companion)
    public, _ = redacted(companion, paths="none", text="none")
    gone = {"zquserxz", "zqfolderxz", "zqfilexz", "zqcommentxz", "zqdocstringxz", "zqresultxz", "zqnotexz"}
    assert not gone & tokens_in(public).keys()


def test_kernels_are_explained_and_shared_objects_are_left_out() -> None:
    log = (COMPILED / "profiled.right.txt").read_bytes()
    out, companion = io.BytesIO(), io.BytesIO()
    archive.redact(package("profiled"), out, companion, preset="publish")
    public, facts = redacted(companion.getvalue(), preset="vendor")
    assert [name.rpartition(".")[2] for name in facts.gone] == ["so"]
    assert facts.out_size < 0.2 * facts.size
    with archive.open(out.getvalue(), companion=public) as opened:
        told = b"".join(LogExplainer.of(opened).explain([log]))
    assert b'  File "torch/nn/modules/linear.py", line 134, in forward\n' in told
    assert b"    b = self.warm(right)\n" in told
    assert not holds(public, "/opt/")


def test_archives_need_a_companion_of_their_own(tmp_path: Path) -> None:
    done = run("redact", MODEL, "-o", tmp_path / "out", "--paths", "none")
    assert done.returncode == 2
    assert (
        b"isn't a companion. Missing -c COMPANION: the private file that will hold what is removed"
        in done.stderr
    )
    done = run("redact", MODEL, "-o", tmp_path / "out", "--no-extra")
    assert b"Missing -c COMPANION: the private file that will hold what is removed" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_companion_has_no_companion_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "model.ptdbg"
    path.write_bytes(halves(ORACLES / "plain_stack.ptl").companion)
    done = run("redact", path, "-o", tmp_path / "x", "-c", tmp_path / "y", "--for", "vendor")
    assert done.returncode == 2
    assert b"model.ptdbg is a companion: leave out -c" in done.stderr
    assert not (tmp_path / "x").exists()
