"""``--annotations``: what GitHub shows beside files, and what a model's names cannot make it do."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from archive.container.serialization_id import RECORD_NAME
from archive.report.ci import Annotation
from tests.support.commands import called, run
from tests.support.corpus import RELEASES
from tests.support.github_runner import Command, obeyed
from tests.support.kinds import KINDS
from tests.support.tampering import STACK, tampered
from tests.support.zips import zipped

if TYPE_CHECKING:
    from pathlib import Path

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
OLD = RELEASES / "torch-1.9.0" / "nested.ptl"


@pytest.fixture
def workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in a workflow, and the current folder is one in there."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path / "models")
    return tmp_path / "models"


def annotated(*arguments: object) -> list[Command]:
    return obeyed(called(*arguments).stdout.splitlines())


@pytest.mark.parametrize("text", ["100%", "a:b,c", "%0A", "two\nlines\r", "::error::", "##[x]", "a=b", "é"])
def test_texts_come_out_as_they_were(text: str) -> None:
    line = Annotation("error", text, text, text).github()
    assert "\n" not in line
    assert obeyed([line]) == [Command("error", {"file": text, "title": text}, text)]


def test_errors_of_a_file_are_one_annotation_behind_all_else(workflow: Path) -> None:
    shutil.copy(KINDS / "state_dict.pt", workflow / "other.pt")
    shutil.copy(NESTED, workflow)
    done = called("verify", "other.pt", "nested.ptl", "none.pt")
    stop, other, well, none, total, resume, *annotations = done.stdout.splitlines()
    assert stop.startswith("::stop-commands::")
    assert resume == f"::{stop.removeprefix('::stop-commands::')}::"
    assert well == "nested.ptl: well"
    assert total == "3 files: 1 well, 0 with findings, 2 not checked"
    assert obeyed(annotations) == [
        Command("error", {"file": "models/other.pt", "title": "verify"}, other.partition("not checked: ")[2]),
        Command("error", {"file": "models/none.pt", "title": "verify"}, none.partition("error: ")[2]),
    ]


def test_warnings_are_apart_from_errors_and_notes_are_none(workflow: Path) -> None:
    (workflow / "other_id.ptl").write_bytes(tampered(STACK, {RECORD_NAME: b"x"}))
    shutil.copy(OLD, workflow / "noted.ptl")
    said = called("verify", ".").stdout
    assert "noted.ptl: note: " in said
    (found,) = obeyed(said.splitlines())
    assert (found.name, found.properties["file"]) == ("warning", "models/other_id.ptl")
    assert f"other_id.ptl: warning: {found.data}\n" in said
    assert annotated("verify", ".", "--quiet") == []


def test_budgets_are_annotated_beside_the_model_or_the_toml(workflow: Path) -> None:
    shutil.copy(NESTED, workflow)
    (workflow.parent / "pyproject.toml").write_text(
        '[tool.debug-archive.budgets]\n"models/*.ptl" = ["9KB", "debug=3KB"]\n"modles/*" = "1B"\n'
    )
    over, idle = annotated("sizes", ".")
    assert over == Command(
        "error",
        {"file": "models/nested.ptl", "title": "over budget"},
        "9,881 bytes, 881 over the budget of 9,000 (models/*.ptl)\n"
        "debug: 3,017 bytes, 17 over the budget of 3,000 (models/*.ptl)",
    )
    assert idle.properties == {"file": "pyproject.toml", "title": "budgets"}
    assert idle.data.endswith("'modles/*': fits no file")


def test_a_file_that_cannot_be_measured_is_annotated(workflow: Path) -> None:
    shutil.copy(NESTED, workflow)
    (workflow / "cut.ptl").write_bytes(NESTED.read_bytes()[:-100])
    (found,) = annotated("sizes", ".")
    assert found.properties == {"file": "models/cut.ptl", "title": "sizes"}
    assert found.data.startswith("cut.ptl: a zip without its end")


def test_with_json_they_are_on_standard_error(workflow: Path) -> None:
    shutil.copy(NESTED, workflow)
    done = called("sizes", "nested.ptl", "--budget", "1B", "--json")
    assert json.loads(done.stdout)["budgets"][0]["over"] == 9_880
    assert [one.data for one in obeyed(done.stderr.splitlines())] == [
        "9,881 bytes, 9,880 over the budget of 1"
    ]


@pytest.mark.usefixtures("workflow")
def test_they_can_be_asked_for_and_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    assert annotated("verify", "none.pt", "--annotations", "none") == []
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert called("verify", "none.pt").stdout == "none.pt: error: No such file or directory\n"
    assert len(annotated("verify", "none.pt", "--annotations", "github")) == 1


def test_as_many_are_printed_as_github_keeps(workflow: Path) -> None:
    for number in range(15):
        (workflow / f"{number}.pt").write_bytes(
            zipped(**{"m/version": b"3\n", "m/code/a.py": b"", "m/data.pkl": b""})
        )
    done = called("verify", ".")
    assert "15 files: 0 well, 15 with findings, 0 not checked" in done.stdout.splitlines()
    assert len(obeyed(done.stdout.splitlines())) == 10


def test_a_file_outside_of_the_repository_keeps_its_path(workflow: Path) -> None:
    (found,) = annotated("verify", workflow.parents[1] / "none.pt")
    assert found.properties["file"] == str(workflow.parents[1] / "none.pt")


@pytest.mark.parametrize("command", ["verify", "sizes"])
def test_no_name_in_a_model_is_a_command(command: str, workflow: Path) -> None:
    record = "m/extra/##[add-mask]1"
    (workflow / "::add-mask::x.pt").write_bytes(zipped(**{record: b"1", "m/version": b"3\n"}))
    done = run(command, "::add-mask::x.pt", *(["--by", "record"] if command == "sizes" else []))
    said = done.stdout.decode().splitlines()
    assert "add-mask" in {one.name for one in obeyed(said[1:-1])}, "else there is nothing to stop"
    assert {one.name for one in obeyed(said)} <= {"error"}
