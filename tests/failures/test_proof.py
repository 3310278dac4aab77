"""What proves that an explanation is of the version that failed; a note stands where nothing does."""

from __future__ import annotations

import csv
import json
import zipfile
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

import pytest

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.explainer import LogExplainer
from tests.failures.models.test_three_models import FAILURES, FLEET
from tests.support.commands import run
from tests.support.halves import halves
from tests.support.reports import case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.reports import Report

SERIALIZED = [case(name) for name in ("plain_free_functions.jit", "plain_stack.jit", "plain_unicode.jit")]


def files_of(report: Report) -> Iterator[tuple[str, dict[str, bytes | None]]]:
    """A model as the ways have it in which someone hands it over: its file, and the companion's."""
    left, companion, _ = halves(report.path)
    yield "original", {"file": report.path.read_bytes(), "companion": None}
    yield "companion alone", {"file": companion, "companion": None}
    yield "small file and companion", {"file": left, "companion": companion}


def explained(log: bytes, file: bytes | None, companion: bytes | None = None) -> tuple[bytes, LogExplainer]:
    assert file is not None
    with archive.open(file, companion=companion) as opened:
        explainer = LogExplainer.of(opened)
        return b"".join(explainer.explain([log])), explainer


def twins(report: Report) -> Iterator[tuple[bool, bytes]]:
    """The same model with another byte in one line of its code, and whether the log may show this line."""
    with zipfile.ZipFile(report.path) as source:
        records = {name: source.read(name) for name in source.namelist()}
    for name, code in [(name, code) for name, code in records.items() if name.endswith(".py")]:
        lines = code.splitlines(keepends=True)
        for at, line in enumerate(lines):
            changed = b"".join([*lines[:at], line[:-2] + b"?\n", *lines[at + 1 :]])
            out = BytesIO()
            with zipfile.ZipFile(out, "w") as target:
                for each, data in records.items():
                    target.writestr(each, changed if each == name else data)
            yield line.strip() in report.stripped, out.getvalue()


@pytest.mark.parametrize("report", SERIALIZED, ids=lambda report: report.path.stem)
def test_a_twin_that_differs_outside_of_what_the_log_shows_is_explained_with_a_note(report: Report) -> None:
    """One that differs in a line of the log is another model; any other one may be what failed."""
    explained_twins = others = 0
    for may_be_shown, twin in twins(report):
        out, explainer = explained(report.stripped, twin)
        if out == report.full:
            assert explainer.caveat
            explained_twins += 1
            continue
        assert may_be_shown
        assert out == report.stripped
        assert "the failure is another model's" in explainer.notes[0]
        others += 1
    assert explained_twins >= 3
    assert others >= 3


@pytest.mark.parametrize("report", SERIALIZED, ids=lambda report: report.path.stem)
def test_what_nothing_proves_is_noted_however_the_model_is_handed_over(report: Report) -> None:
    for way, files in files_of(report):
        out, explainer = explained(report.stripped, files["file"], files["companion"])
        assert out == report.full
        assert explainer.caveat or any("nothing proves it" in note for note in explainer.notes), way
        assert not (explainer.caveat and explainer.notes), "a failure has one note"


def test_a_prefix_or_a_name_in_the_log_is_proof() -> None:
    one, report = FAILURES[0], SERIALIZED[0]
    by_prefix = LogExplainer.of(archive.open(FLEET / f"{one.model}.ptdbg"))
    assert b"".join(by_prefix.explain([one.unique.encode()])) == one.explained.encode()
    by_name = explainer_of(models_in([report.path]), names=r"running (\w+)")
    log = b"running %s\n" % report.path.stem.encode() + report.stripped
    assert b"".join(by_name.explain([log])).endswith(report.full)
    assert (by_prefix.caveat, by_name.caveat) == ("", "")


WAYS = [
    ("fleet", "", "yes"),
    ("original", "", "no"),
    ("original", "names", "yes"),
    ("original", "later", "1 of 2"),
]
WAYS += [("companion", "", "no"), ("companion", "names", "yes")]


@pytest.mark.parametrize(("way", "named", "proven"), WAYS)
def test_each_row_says_in_every_form_whether_something_proves_it(
    way: str, named: str, proven: str, tmp_path: Path
) -> None:
    report, model = SERIALIZED[0], FLEET
    log = FAILURES[0].unique.encode() if way == "fleet" else report.stripped
    if way != "fleet":
        model = tmp_path / "model"
        files = {name.partition(" ")[0]: each for name, each in files_of(report)}
        model.write_bytes(files[way]["file"] or b"")
    names = ("--model", "running (.*)") if named else ()
    log = {"": log, "names": b"running model\n" + log, "later": log + b"running model\n" + log}[named]

    def printed(*form: object) -> str:
        return run("symbolicate", model, *names, *form, stdin=log).stdout.decode()

    count = 1 + (named == "later")
    assert printed("--top", 0).splitlines()[2].startswith(f"       {count}   {proven} ")
    (row,) = csv.DictReader(StringIO(printed("--format", "csv")))
    (cause,) = json.loads(printed("--json"))["files"][0]["causes"]
    assert {"yes": count, "no": 0}.get(proven, 1) == int(row["proven"]) == cause["proven"]
    assert f"proven: {proven}" in json.loads(printed("--sarif"))["runs"][0]["results"][0]["message"]["text"]
    done = run("symbolicate", model, *names, "--html", tmp_path / "page.html", stdin=log)
    assert f">{proven}<" in (tmp_path / "page.html").read_text()
    assert (b"noth" in done.stderr) == (proven != "yes"), "a note says so of nothing that is proven"
