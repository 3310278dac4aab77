"""``debug-archive profile``: a run in stock PyTorch as tables, files and JSON; saved profiles compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.commands import run, well
from tests.support.corpus import KINDS
from tests.support.documents import file_of

if TYPE_CHECKING:
    from pathlib import Path


def saved(path: Path, times: dict[str, int], *, runs: int = 1, peak: int | None = 96) -> Path:
    """A saved profile of some lines with their times in ns."""
    rows = [
        {"name": name, "text": "x = y", "self_ns": time, "total_ns": time, "calls": runs, "share": 0.5}
        | {"allocated": 64 * runs}
        for name, time in times.items()
    ]
    facts = {"backend": "TorchScript", "runs": runs, "operations": len(rows), "peak_bytes": peak}
    facts |= {"total_ns": sum(times.values()), "module": [], "line": rows, "operator": rows}
    path.write_text(json.dumps(facts))
    return path


def shown_lines(*arguments: object) -> list[str]:
    return [line.rstrip() for line in well(*arguments).splitlines()]


def test_saved_profiles_are_compared_a_run(tmp_path: Path) -> None:
    before = saved(tmp_path / "before.json", {"m.py:1": 4000, "m.py:2": 2000, "m.py:3": 500})
    after = saved(tmp_path / "after.json", {"m.py:1": 2000, "m.py:2": 4000, "m.py:4": 100}, runs=2, peak=32)
    assert shown_lines("profile", after, "--base", before, "--by", "line", "-n", "3") == [
        "TorchScript 6.5 µs -> TorchScript 3.0 µs a run (-53%), memory 96 B -> 32 B",
        "",
        "line        before   after   change     %  source",
        "─────────────────────────────────────────────────",
        "m.py:1      4.0 µs  1.0 µs  -3.0 µs  -75%  x = y",
        "m.py:3      0.5 µs          -0.5 µs  gone  x = y",
        "m.py:4              0.1 µs  +0.1 µs   new  x = y",
        "[1 others]                  +0.0 µs",
    ]
    facts = file_of(well("profile", after, "--base", before, "--by", "operator", "--json"))
    assert (facts["before_ns"], facts["after_ns"]) == (6500, 3050)
    assert facts["changes"][0]["after"]["self_ns"] == 1000
    assert facts["changes"][1]["after"] is None


def test_a_saved_profile_is_shown(tmp_path: Path) -> None:
    path = saved(tmp_path / "one.json", {"m.py:1": 3000, "m.py:2": 1000}, runs=2, peak=None)
    assert shown_lines("profile", path, "--by", "line") == [
        "TorchScript: 2.0 µs a run",
        "",
        "line      self  share  calls  allocated  source",
        "───────────────────────────────────────────────",
        "m.py:1  1.5 µs  75.0%      1         64  x = y",
        "m.py:2  0.5 µs  25.0%      1         64  x = y",
    ]
    assert file_of(well("profile", path, "--by", "line", "--json"))["line"][0]["self_ns"] == 1500
    assert well("profile", path, "--base", path, "--by", "line").count("same") == 3


@pytest.mark.parametrize(
    "change", [{"runs": 0}, {"runs": "x"}, {"line": [{}]}, {"total_ns": -1}, {"peak_bytes": 1e400}]
)
def test_what_is_no_profile_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path / "one.json", {"m.py:1": 3000})
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    done = run("profile", path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no profile as `debug-archive profile --json` prints" in done.stderr


def test_a_saved_profile_is_not_run(tmp_path: Path) -> None:
    path = saved(tmp_path / "one.json", {"m.py:1": 3000})
    assert b"--base compares" in run("profile", __file__, "--base", path, "--by", "source").stderr
    for more in (["--input", "1x2"], ["-o", str(tmp_path / "x.json")], ["--by", "source"]):
        done = run("profile", path, *more)
        assert (done.returncode, b"a saved profile is shown" in done.stderr) == (2, True)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch = pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.profiles import Deciding  # noqa: PLC0415 (needs PyTorch)

    torch.jit.script(Deciding().eval())._save_for_lite_interpreter(
        str(tmp_path / "m.ptl"), _save_mobile_debug_info=True
    )
    return tmp_path / "m.ptl"


@pytest.mark.torch
def test_a_run_is_shown_saved_and_compared(model: Path, tmp_path: Path) -> None:
    given = ["profile", model, "--input", "2x4", "--input", "3"]
    modules = well(*given)
    assert modules.startswith("backend lite interpreter: ")
    assert {line.split()[0] for line in modules.splitlines() if "(Linear)" in line} == {"left", "right"}
    trace, stacks = tmp_path / "x.json", tmp_path / "x.folded"
    facts = file_of(well(*given, "--runs", "2", "--json", "-o", trace, "-o", stacks))
    assert (facts["runs"], facts["backend"]) == (2, "lite interpreter")
    assert json.loads(trace.read_bytes())["traceEvents"]
    assert "top(Deciding);left(Linear);" in stacks.read_text("utf-8")
    before = tmp_path / "before.json"
    before.write_text(json.dumps(facts))
    assert " a run (" in well(*given, "--base", before, "--by", "operator")
    assert "return self.right(x) * 2" in well(*given, "--torchscript", "--by", "source")


@pytest.mark.torch
def test_a_run_without_its_debug_info_is_a_finding(model: Path, tmp_path: Path) -> None:
    small, companion = tmp_path / "small.ptl", tmp_path / "m.ptdbg"
    well("split", model, "-o", small, "-c", companion)
    given = ["profile", small, "--input", "2x4", "--input", "1"]
    done = run(*given)
    assert done.returncode == 1
    assert done.stderr.endswith(b"operations have no debug info; -c gives a companion, if it was split off\n")
    assert b"(unknown)" in done.stdout
    assert "left " in well(*given, "-c", companion)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--input", "2x4:int999"], "no type 'int999' of tensors"),
        (["--input", "[1"], "expected sizes like 1x3x32x32, sizes and type like 16:int64, or JSON"),
        (["--input", "2x5", "--input", "1"], "forward fails with these inputs: mat1 and mat2 shapes"),
        (["--base", "none.json"], "none.json: No such file"),
        (["--input", "2x4", "--input", "1", "-o", "x.svg"], "a name that ends in .speedscope.json"),
    ],
)
def test_what_cannot_be_run_is_told(model: Path, more: list[str], said: str) -> None:
    done = run("profile", model, *more)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()


@pytest.mark.torch
@pytest.mark.parametrize(
    "more", [("--by", "source"), ("--by", "delegate"), ("--lite",), ("--format", "model-explorer")]
)
def test_what_profiles_of_exported_programs_do_not_have_is_told(more: tuple[str, ...]) -> None:
    done = run("profile", KINDS / "exported.pt2", *more)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"exported program" in done.stderr
