"""The table of `make coverage`: counts room by room, and rooms below their floor are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools import coverage_rooms
from tools.coverage_rooms import BELOW, CORE, CORE_GOAL, GOAL, floor_of, goal_of, room_of, rooms_of, table

if TYPE_CHECKING:
    import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "archive"


def file(lines: int, missing: list[int], branches: int, not_taken: list[list[int]]) -> dict[str, Any]:
    """A file as ``coverage json`` describes it."""
    summary = {
        "covered_lines": lines - len(missing),
        "num_statements": lines,
        "covered_branches": branches - len(not_taken),
        "num_branches": branches,
    }
    return {"summary": summary, "missing_lines": missing, "missing_branches": not_taken}


REPORT = {
    "files": {
        "archive/pickles/scan.py": file(60, [], 20, []),
        "archive/pickles/walk.py": file(19, [7, 8, 9, 12], 4, [[6, 7], [14, 6], [15, -13]]),
        "archive/rewrite/split.py": file(98, [1], 2, []),
        "archive/failures/lines.py": file(10, [], 0, []),
    }
}


def test_a_room_is_a_folder_and_one_of_a_job_is_divided() -> None:
    assert list(rooms_of(REPORT)) == ["failures", "pickles", "rewrite"]
    assert room_of("archive/__init__.py") == "archive"
    assert room_of("archive/rewrite/migrate/plan.py") == "rewrite/migrate"
    assert room_of("archive/formats/effects/rows.py") == "formats"


def test_places_that_no_test_reaches_are_listed_once() -> None:
    assert rooms_of(REPORT)["pickles"].missing == {
        "archive/pickles/walk.py": ["7-9", "12", "14->6", "15->exit"]
    }


def test_floors_are_for_lines_and_branches_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rooms = rooms_of(REPORT)
    assert [f"{room.percent:.0f}" for room in rooms.values()] == ["100", "93", "99"]
    assert [line[-1] for line in table(rooms).splitlines()[1:]] == ["0", "!", "1"]
    (tmp_path / "coverage.json").write_text(json.dumps(REPORT))
    monkeypatch.setattr("sys.argv", ["coverage_rooms", str(tmp_path / "coverage.json")])
    assert coverage_rooms.main() == 1
    assert "archive/pickles/walk.py: 7-9, 12, 14->6, 15->exit\n" in capsys.readouterr().out
    others = {path: counts for path, counts in REPORT["files"].items() if path != "archive/pickles/walk.py"}
    (tmp_path / "coverage.json").write_text(json.dumps({"files": others}))
    assert coverage_rooms.main() == 0


def test_the_core_rooms_are_there_and_have_the_higher_goal() -> None:
    assert [room for room in [*CORE, *BELOW] if not (PACKAGE / room / "__init__.py").exists()] == []
    assert {goal_of(room) for room in CORE} == {CORE_GOAL}
    assert goal_of("cli") == GOAL < CORE_GOAL


def test_a_room_below_its_goal_has_a_floor_of_its_own_until_it_gets_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "coverage.json").write_text(json.dumps(REPORT))
    monkeypatch.setattr("sys.argv", ["coverage_rooms", str(tmp_path / "coverage.json")])
    monkeypatch.setattr(coverage_rooms, "BELOW", {"pickles": 93.0, "rewrite": 90.0})
    assert (floor_of("pickles"), goal_of("pickles")) == (93.0, CORE_GOAL)
    assert coverage_rooms.main() == 0
    assert "rewrite has reached its goal: take it out of BELOW" in capsys.readouterr().out
    assert all(floor < goal_of(room) for room, floor in BELOW.items())
