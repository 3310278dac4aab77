"""``debug-archive leaks`` as a user calls it."""

from __future__ import annotations

import csv
import io
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.canaries import planted
from tests.support.commands import called, row, run, well
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.documents import file_of, files_of
from tests.support.halves import halves

if TYPE_CHECKING:
    from pathlib import Path

STACK = ORACLES / "plain_stack.ptl"
SHOP = FIXTURES / "exported" / "shop.pt2"
CLEAN = FIXTURES / "kinds" / "state_dict.pt"


def folder_of(tmp_path: Path) -> Path:
    """A folder with a clean model, one that gives something away, and a file that is none."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "clean.pt").write_bytes(CLEAN.read_bytes())
    (folder / "planted.ptl").write_bytes(planted(STACK.read_bytes())[0])
    (folder / "notes.txt").write_text("notes")
    return folder


def test_a_table_has_kind_count_text_place_and_the_way_out() -> None:
    done = called("leaks", SHOP)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["kind", "found", "text", "first", "at"]
    assert row(done.stdout, "source text") == [
        *("11", "a", "=", "self.price(self.goods(first))"),
        *("models/model.json,", "…nodes[0].metadata.stack_trace"),
    ]
    assert row(done.stdout, "sample inputs") == ["1", *["data/sample_inputs/model.pt"] * 2]
    assert "source text: `redact --source none` takes it out" in lines
    assert "not counted: root folder 1, class name 2, attribute name 8, id 2" in lines
    assert lines[-1] == "tensors passed over: 352 bytes"


def test_a_clean_file_is_well() -> None:
    assert well("leaks", CLEAN).splitlines()[0] == f"{CLEAN}: nothing found"


def test_n_shows_more_texts() -> None:
    few, all_of_them = (called("leaks", SHOP, "-n", number).stdout for number in (1, 0))
    assert "[4 other texts]" in few
    assert "other texts" not in all_of_them
    assert all_of_them.count("site-packages/torch/nn/modules") == 5


def test_kind_looks_for_that_kind_alone() -> None:
    done = called("leaks", SHOP, "--kind", "class name")
    assert done.exit_code == 1
    assert "shop.Lookup" in done.stdout
    assert "site-packages" not in done.stdout
    assert well("leaks", SHOP, "--kind", "home path").splitlines()[0] == f"{SHOP}: nothing found"


def test_rows_and_json_have_only_the_kind_that_is_asked_for() -> None:
    asked = "leaks", SHOP, "--kind", "class name"
    (file,) = files_of(called(*asked, "--json").stdout)
    assert {(one["kind"], one["counted"]) for one in file["findings"]} == {("class name", True)}
    rows = list(csv.DictReader(io.StringIO(called(*asked, "--format", "csv").stdout)))
    assert [row["text"] for row in rows] == [one["text"] for one in file["findings"]]


def test_allowed_texts_do_not_count() -> None:
    said = well("leaks", SHOP, "--allow", "/opt/*", "--allow", "source text=*", "--allow", "data/sample*")
    assert "allowed: 11 texts" in said


def test_json_has_every_finding_with_its_places() -> None:
    done = called("leaks", SHOP, "--json")
    facts = file_of(done.stdout)
    assert done.exit_code == 1
    assert facts["kind"] == "exported program"
    assert facts["passed_over"] == 352
    (inputs,) = (one for one in facts["findings"] if one["kind"] == "sample inputs")
    assert inputs == {
        "kind": "sample inputs",
        "text": "data/sample_inputs/model.pt",
        "count": 1,
        "places": [{"record": "data/sample_inputs/model.pt", "byte": None}],
        "counted": True,
        "allowed": False,
        "remedy": "`redact --no-inputs` takes them out",
    }
    assert {one["counted"] for one in facts["findings"] if one["kind"] == "id"} == {False}


def test_a_folder_is_a_line_a_file_and_the_total(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    done = called("leaks", folder, "-j", 1)
    assert done.exit_code == 1
    clean, found, total = done.stdout.splitlines()
    assert clean == f"{folder / 'clean.pt'}: nothing found"
    assert found.startswith(f"{folder / 'planted.ptl'}: home path 5, user name 5, source text ")
    assert total == "2 files: 1 without, 1 with findings (numbers of different texts)"
    assert "skipped, files of other kinds: 1 (text: 1)" in done.stderr


def test_json_of_a_folder_has_an_object_for_each_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "cut.pt").write_bytes(STACK.read_bytes()[:500])
    done = called("leaks", folder, "--json")
    assert done.exit_code == 2
    facts = files_of(done.stdout)
    assert [one["file"].rpartition("/")[2] for one in facts] == ["clean.pt", "cut.pt", "planted.ptl"]
    assert "cut short" in facts[1]["error"]


def test_what_was_split_is_clean_and_the_companion_is_not(tmp_path: Path) -> None:
    parts = halves(planted(STACK.read_bytes())[0])
    small, companion = tmp_path / "small.ptl", tmp_path / "m.ptdbg"
    small.write_bytes(parts.out)
    companion.write_bytes(parts.companion)
    assert well("leaks", small)
    assert called("leaks", companion).exit_code == 1


def test_a_file_that_is_not_read_is_an_error_not_clean() -> None:
    done = run("leaks", FIXTURES / "kinds" / "script.pt.gz")
    assert done.returncode == 2
    assert b"unpack it first" in done.stderr


def test_findings_are_annotated() -> None:
    done = called("leaks", SHOP, "--annotations", "github")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("::warning"))
    assert line.startswith(f"::warning file={SHOP},title=leaks::site-packages path: /opt/py/lib")


def counted_kinds(*arguments: object) -> set[str]:
    facts = file_of(called("leaks", *arguments, "--json").stdout)
    return {one["kind"] for one in facts["findings"] if one["counted"]}


def test_a_project_allows_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = '[tool.debug-archive.leaks]\nallow = ["/opt/py/*", "source text=*"]\n'
    (tmp_path / "pyproject.toml").write_text(settings + '[tool.debug-archive.budgets]\n"*.pt2" = "9MB"\n')
    (tmp_path / "strict.toml").write_text("[tool.debug-archive.leaks]\nallow = []\n")
    monkeypatch.chdir(tmp_path)
    shutil.copy(SHOP, "shop.pt2")
    assert counted_kinds("shop.pt2") == {"sample inputs"}
    assert "allowed: 10 texts" in well("leaks", "shop.pt2", "--allow", "sample inputs=*")
    assert well("sizes", "*.pt2").endswith("budgets: 1 kept, 0 exceeded\n")
    strict = {"sample inputs", "site-packages path", "source text"}
    assert counted_kinds("shop.pt2", "--config", "strict.toml") == strict


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            "allow = 1",
            "pyproject.toml: [tool.debug-archive.leaks], allow: expected a list of texts, found 1",
        ),
        ("allow = [1]", "expected a list of texts"),
        ("alow = []", "pyproject.toml: [tool.debug-archive.leaks]: expected allow, found"),
        ("[tool.debug-archive.other]", "[tool.debug-archive]: expected budgets or leaks"),
    ],
)
def test_settings_that_are_none_are_refused(
    settings: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.debug-archive.leaks]\n{settings}\n")
    monkeypatch.chdir(tmp_path)
    done = run("leaks", SHOP)
    assert done.returncode == 2
    assert why in done.stderr.decode()


def test_sarif_has_a_rule_a_kind_and_a_result_a_finding(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "cut.pt").write_bytes(STACK.read_bytes()[:500])
    done = called("leaks", folder, "--sarif", "--kind", "user name")
    assert done.exit_code == 2
    log = json.loads(done.stdout)
    (run_,) = log["runs"]
    assert log["version"] == "2.1.0"
    rules = [rule["id"] for rule in run_["tool"]["driver"]["rules"]]
    unread, *found = run_["results"]
    assert (unread["ruleId"], unread["level"]) == ("not read", "error")
    assert [one["message"]["text"] for one in found] == [f"user name: u{number:03d}" for number in range(5)]
    assert {rules[one["ruleIndex"]] for one in found} == {"user name"}
    (place,) = found[0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == (folder / "planted.ptl").as_uri()
    assert place["logicalLocations"][0]["fullyQualifiedName"].startswith("code/__torch__/torch/nn/")
