"""``--sarif`` of ``verify`` and ``leaks``: logs that code scanners take, of whatever files."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from archive.privacy.leaks import LeakKind
from archive.report.ci import SarifResult, sarif
from tests.support.commands import called
from tests.support.corpus import RELEASES
from tests.support.kinds import KINDS
from tests.support.sarif_schema import check_log

if TYPE_CHECKING:
    from pathlib import Path

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
OLD = RELEASES / "torch-1.9.0" / "nested.ptl"
ANY_BYTES = os.fsdecode(b"\xff.pt")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder in a repository: an archive, an older one, one that is cut, another file."""
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(NESTED, folder / "a b:c.ptl")
    shutil.copy(OLD, folder / "old.ptl")
    shutil.copy(KINDS / "state_dict.pt", folder)
    (folder / ANY_BYTES).write_bytes(NESTED.read_bytes()[:500])
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


def log_of(*arguments: object) -> tuple[dict[str, Any], int]:
    done = called(*arguments, "--sarif")
    log = json.loads(done.stdout)
    check_log(log)
    return log["runs"][0], done.exit_code


def uri(result: dict[str, Any]) -> str:
    return str(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


@pytest.mark.usefixtures("models")
def test_verify_has_a_rule_a_severity_and_a_result_a_diagnostic() -> None:
    run, status = log_of("verify", ".", "state_dict.pt", "none.pt")
    assert status == 2
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["error", "warning", "note", "not checked", "internal error"]
    found = {uri(one): (one["ruleId"], one["level"]) for one in run["results"]}
    assert found == {
        "models/%FF.pt": ("error", "error"),
        "models/old.ptl": ("note", "note"),
        "models/state_dict.pt": ("not checked", "error"),
        "models/none.pt": ("error", "error"),
    }
    (note,) = (one for one in run["results"] if one["level"] == "note")
    logical = note["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
    assert f"{logical}: {note['message']['text']}" in called("verify", "old.ptl").stdout


@pytest.mark.usefixtures("models")
def test_a_log_of_quiet_verify_has_errors_alone() -> None:
    assert log_of("verify", "old.ptl", "a b:c.ptl", "--quiet") == log_of("verify", "a b:c.ptl")
    run, status = log_of("verify", ANY_BYTES, "-q")
    assert (len(run["results"]), status) == (1, 1)


@pytest.mark.usefixtures("models")
def test_leaks_has_results_of_files_by_any_name() -> None:
    run, status = log_of("leaks", ".", "--kind", LeakKind.SOURCE)
    assert status == 2
    assert {uri(one) for one in run["results"]} == {"models/%FF.pt", "models/a%20b%3Ac.ptl", "models/old.ptl"}
    assert {one["ruleId"] for one in run["results"]} == {"not read", LeakKind.SOURCE}


@pytest.mark.parametrize("command", ["verify", "leaks"])
def test_annotations_stand_beside_the_log(command: str, models: Path) -> None:
    done = called(command, models, "--sarif", "--annotations", "github")
    json.loads(done.stdout)
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("::error"))
    assert line.startswith(rf"::error file=models/\xff.pt,title={command}::")
    assert "cut short" in line


@pytest.mark.parametrize("command", ["verify", "leaks"])
def test_a_log_has_no_password_of_a_url(command: str) -> None:
    said = called(command, "http://me:secret@localhost:1/m.pt?token=secret", "--sarif").stdout
    (result,) = json.loads(said)["runs"][0]["results"]
    assert uri(result) == "http://localhost:1/m.pt%3F%E2%80%A6"
    assert "secret" not in said


@pytest.mark.parametrize("command", ["verify", "leaks"])
def test_sarif_and_json_are_one_too_many(command: str) -> None:
    assert "give one of both" in called(command, NESTED, "--sarif", "--json").stderr


def test_a_result_of_a_whole_file_has_no_place_in_there() -> None:
    log = sarif("1.0.0", {"a": "b"}, [SarifResult("a", "note", "text", "x/y", "")])
    check_log(log)
    assert "logicalLocations" not in log["runs"][0]["results"][0]["locations"][0]
