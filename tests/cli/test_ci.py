"""``--annotations`` and ``--sarif``: what GitHub shows, and what names in a model cannot make it do."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from archive.cli import printing
from archive.cli.ci import CAUSE_RULES, cause_result, source_in_repository
from archive.container.serialization_id import RECORD_NAME
from archive.failures.explainer import CauseGroup
from archive.failures.failure import FailureCause
from archive.privacy.leaks import LeakKind
from archive.render.ci import MOST_RESULTS, ROOT, Annotation, SarifResult, sarif
from tests.support.commands import WELL, called, run
from tests.support.corpus import FIXTURES, KINDS, RELEASES
from tests.support.documents import file_of
from tests.support.tampering import STACK, tampered
from tests.support.zips import zipped

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from archive.render.ci import SarifLevel

# --- GitHub's runner


STOP = "stop-commands"
OBEYED_COMMANDS = {
    STOP,
    "error",
    "warning",
    "notice",
    "add-mask",
    "set-output",
    "save-state",
    "group",
    "endgroup",
}
IN_DATA = {"%0D": "\r", "%0A": "\n", "%25": "%"}
IN_PROPERTIES = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


class RunnerCommand(NamedTuple):
    """A line that the runner obeys instead of showing it."""

    name: str
    properties: dict[str, str]
    data: str


def obeyed(lines: Iterable[str]) -> list[RunnerCommand]:
    """The commands that the runner obeys."""
    known, word, found = set(OBEYED_COMMANDS), "", []
    for line in lines:
        command = _parsed(line, known)
        if command is None:
            continue
        if word:
            word = "" if command.name == word else word
        elif command.name == STOP:
            word = command.data
            known.add(word)
        else:
            found.append(command)
    return found


def _parsed(line: str, known: set[str]) -> RunnerCommand | None:
    """A line as a command: ``::name properties::data`` at its beginning, ``##[name properties]`` anywhere."""
    new = re.match(r"\s*::(?P<name>[^ ]*?)(?: (?P<properties>.*?))?::(?P<data>.*)", line, re.DOTALL)
    old = re.search(r"##\[(?P<name>[^ \]]*)(?: (?P<properties>[^\]]*))?\](?P<data>.*)", line, re.DOTALL)
    for match, separator in ((new, ","), (old, ";")):
        if match and match["name"] in known:
            pairs = (
                pair.split("=", 1) for pair in (match["properties"] or "").split(separator) if "=" in pair
            )
            properties = {key: _unescaped(value, IN_PROPERTIES) for key, value in pairs}
            return RunnerCommand(match["name"], properties, _unescaped(match["data"], IN_DATA))
    return None


def _unescaped(text: str, escapes: dict[str, str]) -> str:
    for escape, character in escapes.items():
        text = text.replace(escape, character)
    return text


# --- the schema of SARIF


LEVELS = ("none", "note", "warning", "error")
URI_REFERENCE = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#\[\]-]|%[0-9A-Fa-f]{2})*")
REQUIRED = {
    "log": {"version", "runs"},
    "run": {"tool"},
    "tool": {"driver"},
    "driver": {"name"},
    "rule": {"id"},
    "text": {"text"},
    "result": {"message"},
}
PROPERTIES: dict[str, dict[str, object]] = {
    "log": {"$schema": str, "version": "2.1.0", "runs": ["run"]},
    "run": {
        "tool": {"tool"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"bases"},
        "results": ["result"],
    },
    "bases": {ROOT: {"base"}},
    "base": {"description": {"text"}},
    "tool": {"driver": {"driver"}},
    "driver": {"name": str, "semanticVersion": str, "rules": ["rule"]},
    "rule": {"id": str, "shortDescription": {"text"}, "fullDescription": {"text"}, "help": {"text"}},
    "text": {"text": str},
    "result": {
        "ruleId": str,
        "ruleIndex": int,
        "level": LEVELS,
        "message": {"text"},
        "locations": ["location"],
        "occurrenceCount": int,
        "partialFingerprints": {"fingerprints"},
        "relatedLocations": ["location"],
    },
    "fingerprints": {"primaryLocationLineHash": str},
    "location": {"physicalLocation": {"physical"}, "logicalLocations": ["logical"], "message": {"text"}},
    "physical": {"artifactLocation": {"artifact"}, "region": {"region"}},
    "artifact": {"uri": URI_REFERENCE, "uriBaseId": ROOT},
    "region": {"startLine": int},
    "logical": {"fullyQualifiedName": str},
}
"""Properties of an object, and their values: a type, a constant, one of several, or text of a form; ``{x}``
is an object x, ``[x]`` a list of such."""


ASKED_BY_GITHUB = {
    "driver": {"rules"},
    "rule": {"shortDescription", "fullDescription", "help"},
    "result": {"ruleId", "locations", "partialFingerprints"},
    "location": {"physicalLocation"},
    "physical": {"artifactLocation", "region"},
    "artifact": {"uri"},
    "region": {"startLine"},
    "fingerprints": {"primaryLocationLineHash"},
}
"""What code scanning asks for beyond the schema: "SARIF support for code scanning" at docs.github.com."""


def check_log(log: dict[str, Any]) -> None:
    """Assert that a log is as the schema and GitHub say, and that each result is of its rule."""
    _check_object(log, "log")
    (only,) = log["runs"]  # GitHub takes no more of one category
    assert len(only["results"]) <= MOST_RESULTS
    assert all(1 <= len(rule["fullDescription"]["text"]) <= 1000 for rule in only["tool"]["driver"]["rules"])
    for one_run in log["runs"]:
        rules = [rule["id"] for rule in one_run["tool"]["driver"]["rules"]]
        assert len(rules) == len(set(rules))
        assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in one_run["results"])


def _check_object(value: object, name: str) -> None:
    assert isinstance(value, dict), name
    properties = PROPERTIES[name]
    assert set(value) <= set(properties), name
    assert set(value) >= REQUIRED.get(name, set()) | ASKED_BY_GITHUB.get(name, set()), name
    if name == "artifact":
        is_relative = ":" not in str(value["uri"]).partition("/")[0]
        assert is_relative == ("uriBaseId" in value), "editors look for relative ones below a folder"
    for key, one in value.items():
        _check(one, properties[key])


def _check(value: object, rule: object) -> None:
    match rule:
        case set():
            _check_object(value, *rule)
        case list():
            assert isinstance(value, list)
            for one in value:
                _check_object(one, *rule)
        case type():
            assert isinstance(value, rule), value
        case tuple():
            assert value in rule
        case re.Pattern():
            assert isinstance(value, str)
            assert rule.fullmatch(value), value
        case _:
            assert value == rule


# --- annotations


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


def annotated(*arguments: object) -> list[RunnerCommand]:
    return obeyed(called(*arguments).stdout.splitlines())


@pytest.mark.parametrize("text", ["100%", "a:b,c", "%0A", "two\nlines\r", "::error::", "##[x]", "a=b", "é"])
def test_texts_come_out_as_they_were(text: str) -> None:
    line = Annotation("error", text, text, text).github()
    assert "\n" not in line
    assert obeyed([line]) == [RunnerCommand("error", {"file": text, "title": text}, text)]


def test_errors_of_a_file_are_one_annotation_behind_all_else(workflow: Path) -> None:
    shutil.copy(KINDS / "pointer.pt", workflow / "other.pt")
    shutil.copy(NESTED, workflow)
    done = called("verify", "other.pt", "nested.ptl", "none.pt")
    stop, other, well, none, total, resume, *annotations = done.stdout.splitlines()
    assert stop.startswith("::stop-commands::")
    assert resume == f"::{stop.removeprefix('::stop-commands::')}::"
    assert well == f"nested.ptl: {WELL}"
    assert total == "3 files: 1 well, 0 with findings, 2 not checked"
    assert obeyed(annotations) == [
        RunnerCommand(
            "error", {"file": "models/other.pt", "title": "verify"}, other.partition("not checked: ")[2]
        ),
        RunnerCommand(
            "error", {"file": "models/none.pt", "title": "verify"}, none.partition("not checked: ")[2]
        ),
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
    assert over == RunnerCommand(
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
    assert file_of(done.stdout)["budgets"][0]["over"] == 9_880
    assert [one.data for one in obeyed(done.stderr.splitlines())] == [
        "9,881 bytes, 9,880 over the budget of 1"
    ]


@pytest.mark.usefixtures("workflow")
def test_they_can_be_asked_for_and_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    assert annotated("verify", "none.pt", "--annotations", "none") == []
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert called("verify", "none.pt").stdout == "none.pt: not checked: No such file or directory\n"
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


# --- SARIF


ANY_BYTES = os.fsdecode(b"\xff.pt")


@pytest.fixture
def scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


@pytest.mark.usefixtures("scanned")
def test_verify_has_a_rule_a_severity_and_a_result_a_diagnostic() -> None:
    shutil.copy(KINDS / "note.pt", "note.txt")
    run, status = log_of("verify", ".", "note.txt", "none.pt")
    assert status == 2
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["error", "warning", "note", "not checked", "internal error"]
    found = {uri(one): (one["ruleId"], one["level"]) for one in run["results"]}
    assert found == {
        "models/%FF.pt": ("error", "error"),
        "models/old.ptl": ("note", "note"),
        "models/note.txt": ("not checked", "error"),
        "models/none.pt": ("not checked", "error"),
    }
    (note,) = (one for one in run["results"] if one["level"] == "note")
    logical = note["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
    assert f"{logical}: {note['message']['text']}" in called("verify", "old.ptl").stdout


@pytest.mark.usefixtures("scanned")
def test_a_log_of_quiet_verify_has_errors_alone() -> None:
    assert log_of("verify", "old.ptl", "a b:c.ptl", "--quiet") == log_of("verify", "a b:c.ptl")
    run, status = log_of("verify", ANY_BYTES, "-q")
    assert (len(run["results"]), status) == (1, 1)


@pytest.mark.usefixtures("scanned")
def test_leaks_has_results_of_files_by_any_name() -> None:
    run, status = log_of("leaks", ".", "--kind", LeakKind.SOURCE)
    assert status == 2
    assert {uri(one) for one in run["results"]} == {"models/%FF.pt", "models/a%20b%3Ac.ptl", "models/old.ptl"}
    assert {one["ruleId"] for one in run["results"]} == {"not read", LeakKind.SOURCE}


@pytest.mark.parametrize("command", ["verify", "leaks"])
def test_annotations_stand_beside_the_log(command: str, scanned: Path) -> None:
    done = called(command, scanned, "--sarif", "--annotations", "github")
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
    assert "--json and --sarif are different forms" in called(command, NESTED, "--sarif", "--json").stderr


def test_a_result_of_a_whole_file_has_no_place_in_there() -> None:
    log = sarif("1.0.0", {"a": "b"}, [SarifResult("a", "note", "text", "x/y", "")])
    check_log(log)
    assert "logicalLocations" not in log["runs"][0]["results"][0]["locations"][0]


def test_findings_of_one_file_have_fingerprints_of_their_own_and_keep_them(scanned: Path) -> None:
    run, _ = log_of("leaks", "old.ptl")
    keys = [one["partialFingerprints"]["primaryLocationLineHash"] for one in run["results"]]
    assert len(set(keys)) == len(keys) > 3
    shutil.copy(NESTED, scanned / "0.ptl")  # another result before them
    more, _ = log_of("leaks", "0.ptl", "old.ptl")
    assert [one["partialFingerprints"]["primaryLocationLineHash"] for one in more["results"]][
        -len(keys) :
    ] == keys


def test_no_more_results_than_github_takes_the_gravest(capfd: pytest.CaptureFixture[str]) -> None:
    levels: list[SarifLevel] = ["note", "warning", "error"]
    results = [SarifResult("a", levels[at % 3], f"{at}", "x/y", "") for at in range(MOST_RESULTS + 2)]
    log = sarif("1.0.0", {"a": "b"}, results)
    check_log(log)
    kept = [one["level"] for one in log["runs"][0]["results"]]
    assert len(kept) == MOST_RESULTS
    assert [kept.count(level) for level in levels] == [MOST_RESULTS // 3 - 1, MOST_RESULTS // 3 + 1, 8_334]
    printing.write_sarif({"a": "b"}, results)
    assert f"the 25,000 gravest of {len(results):,} findings" in capfd.readouterr().err


# --- the causes of a log's failures

FLEET = FIXTURES / "fleet"
CAUSES = FLEET / "unique.log"


def test_a_cause_is_a_result_at_the_models_line_with_its_count() -> None:
    run, status = log_of("symbolicate", FLEET, "--log", CAUSES)
    (facts,) = json.loads(called("symbolicate", FLEET, "--log", CAUSES, "--json").stdout)["files"]
    assert status == 0
    assert len(run["results"]) == len(facts["causes"]) > 10
    for result, cause in zip(run["results"], facts["causes"], strict=True):
        region = result["locations"][0]["physicalLocation"]["region"]
        assert (uri(result).removeprefix("file://"), region["startLine"]) == (cause["file"], cause["line"])
        assert result.get("occurrenceCount", 1) == cause["count"]
        assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == cause["first_line"]
        assert cause["message"] in result["message"]["text"]
        assert result["level"] == "error"
    assert sum(one.get("occurrenceCount", 1) for one in run["results"]) == facts["explained"]
    keys = [one["partialFingerprints"]["primaryLocationLineHash"] for one in run["results"]]
    assert len(set(keys)) > 1


@pytest.mark.parametrize(
    ("recorded", "here"),
    [
        ("/builds/wake/models/plain.py", "models/plain.py"),
        (r"C:\\ci\\models\\plain.py", "models/plain.py"),
        ("models/plain.py", "models/plain.py"),
        ("setup.py", "setup.py"),
        ("/elsewhere/setup.py", "/elsewhere/setup.py"),
        ("/a/../models/plain.py", "models/plain.py"),
        ("../setup.py", "../setup.py"),
        ("/a/models/other.py", "/a/models/other.py"),
        ("a\0b/c", "a\0b/c"),
        ("a/" * 5000 + "models/plain.py", "models/plain.py"),
    ],
    ids=lambda text: ascii(text[-24:]),
)
def test_a_source_is_found_in_the_repository_by_the_end_of_its_path(
    recorded: str, here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its last folder and name at least: a name alone says too little."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "plain.py").touch()
    (tmp_path / "setup.py").touch()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert source_in_repository(recorded) == here
    monkeypatch.delenv("GITHUB_WORKSPACE")
    monkeypatch.chdir(tmp_path)
    assert source_in_repository(recorded) == here


def test_sarif_is_a_form_of_logs_and_not_of_handles() -> None:
    same = called("symbolicate", FLEET, "--log", CAUSES, "--format", "sarif").stdout
    assert same == called("symbolicate", FLEET, "--log", CAUSES, "--sarif").stdout
    top = json.loads(called("symbolicate", FLEET, "--log", CAUSES, "--sarif", "--top", "2").stdout)
    assert len(top["runs"][0]["results"]) == 2
    refused = called("symbolicate", NESTED, "42", "--sarif")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--format sarif is for logs" in refused.stderr


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("models/a b.py", "models/a%20b.py"),
        ("/src/models/plain.py", "file:///src/models/plain.py"),
        (r"C:\src\models\plain.py", "file:///C:/src/models/plain.py"),
        ("s3://bucket/m.pt", "s3://bucket/m.pt"),
    ],
)
def test_a_file_outside_of_the_repository_has_a_url(file: str, expected: str) -> None:
    log = sarif("1.0.0", {"a": "b"}, [SarifResult("a", "note", "text", file, "", 3)])
    check_log(log)
    assert uri(log["runs"][0]["results"][0]) == expected


def test_what_names_in_a_model_have_in_them_stays_text() -> None:
    cause = FailureCause("a\udcff\ud800.py", 3, "top\x1b[31m", "line\n::error::\u202e")
    result = cause_result(CauseGroup((), cause, 2, 1, 9), "app.log")
    log = json.loads(json.dumps(sarif("1.0.0", CAUSE_RULES, [result])))
    check_log(log)
    message = log["runs"][0]["results"][0]["message"]["text"]
    assert message.isprintable()
    assert "(2 failures in app.log, lines 1 to 9, proven: no)" in message
