"""The page of a log's failures: its causes, their lines, what each choice of source shows, its bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import archive
from archive.base.source_files import is_pytorchs
from archive.failures.explainer import LogExplainer
from archive.page.failures import failures_facts, marked_lines
from archive.page.shown import Shown
from tests.exported.test_logs import FAILING, text
from tests.page.browser import data_of
from tests.support.commands import called, run, well
from tests.support.corpus import ORACLES
from tests.support.exported import EXPORTED
from tests.support.reports import Report, cases

FLEET = Path("fixtures/fleet")
LOG = (FLEET / "unique.log").read_bytes()
FAILURE = b"Debug info for handle(s): debug_handles:{259710398000000488}, was not found.\n"
HOSTILE = [
    b"<script>alert(1)</script>",
    b"</script><img src=x onerror=alert(1)>",
    b"<!--<script>{{data}}",
    "\u202e\u2066\u200b\u001b[31m".encode(),
]
HIDDEN = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]")


def page_of(folder: Path, log: bytes, *options: str, models: Path = FLEET, name: str = "app.log") -> bytes:
    """The page that the command writes."""
    file, out = folder / name, folder / "failures.html"
    file.write_bytes(log)
    run("symbolicate", models, "--log", file, "--html", out, "--force", *options)
    return out.read_bytes()


def timed(log: bytes) -> bytes:
    """A log whose lines have times, a minute a line."""
    lines = log.splitlines(keepends=True)
    return b"".join(b"2026-11-27 %02d:%02d:00 %b" % (*divmod(n, 60), line) for n, line in enumerate(lines))


def causes_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    columns = data["failures"]["causes"]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_causes_are_those_of_json(tmp_path: Path) -> None:
    data = data_of(page_of(tmp_path, LOG))
    told = json.loads(run("symbolicate", FLEET, "--json", stdin=LOG).stdout)["files"][0]
    causes = causes_of(data)
    assert data["failures"]["unexplained"] == told["unexplained"]
    assert len(causes) == len(told["causes"])
    names = data["failures"]["models"]
    for cause, wanted in zip(causes, told["causes"], strict=True):
        for key in ("count", "file", "line", "where", "message"):
            assert cause[key] == wanted[key]
        assert [names[number] for number in cause["models"]] == [Path(file).name for file in wanted["models"]]


def test_each_cause_opens_at_its_line_with_the_text_of_pytorch(tmp_path: Path) -> None:
    explained = run("symbolicate", FLEET, stdin=LOG).stdout.decode()
    texts = re.sub(r"(?m)^ +", "", explained)
    data = data_of(page_of(tmp_path, LOG))
    for cause in causes_of(data):
        model, file, position = cause["link"]
        source = data["models"][model]["sources"]["files"][file]
        assert source["name"] == cause["file"]
        assert position == 0 or source["text"][position - 1] == "\n"
        line = source["text"][position:].split("\n", 1)[0]
        marked = cause["excerpt"].split("\n")
        first, last = cause["marked"]
        assert marked[first] == line
        assert re.fullmatch(r" *~+ <--- HERE", marked[last])
        assert re.sub(r"(?m)^ +", "", cause["excerpt"]).strip() in texts


@pytest.mark.parametrize("report", cases(), ids=lambda report: report.path.name)
@pytest.mark.parametrize("shown", [Shown.FULL, Shown.BASENAME])
def test_the_frame_that_a_cause_names_is_marked_and_no_other(report: Report, shown: Shown) -> None:
    with archive.open(report.path) as opened:
        explainer = LogExplainer.of(opened)
        explainer.causes.room = 1 << 20
        assert list(explainer.explain([report.stripped]))
        for cause in causes_of(failures_facts(explainer, opened, "log", shown)):
            text = cause["excerpt"].split("\n")
            if cause["marked"] is None:
                assert not cause["file"]
                continue
            first, last = cause["marked"]
            assert 0 <= first <= last < len(text)
            if text[first].startswith(f"{cause['file']}({cause['line']}): "):  # a line of a Python stack
                continue
            named = [at for at in range(first) if text[at].startswith('  File "')][-1]
            assert text[named].startswith(f'  File "{cause["file"]}", line {cause["line"]}')
            assert not any(one.startswith('  File "') for one in text[first : last + 1])
            assert text[last].endswith("<--- HERE")


def test_what_a_node_prints_is_marked_at_its_own_frame() -> None:
    outer = 'Original traceback:\nFile "a.py", line 4, in forward\n    x = f(x)\n'
    text = outer + '  File "b.py", line 2, in f\n    y = x\n'
    assert marked_lines(text, "a.py", 4) == [1, 2]
    assert marked_lines(text, "b.py", 2) == [3, 4]
    assert marked_lines(text, "b.py", 3) is None
    assert marked_lines(text, "", 0) is None
    twice = text + '  File "b.py", line 2, in f\n    y = x\n'
    assert marked_lines(twice, "b.py", 2) == [5, 6]


def test_times_are_counted_where_lines_have_some(tmp_path: Path) -> None:
    assert all(cause["times"] is None for cause in causes_of(data_of(page_of(tmp_path, LOG))))
    data = data_of(page_of(tmp_path, timed(LOG)))
    causes = causes_of(data)
    assert all(sum(cause["times"]) == cause["count"] for cause in causes)
    assert len({len(cause["times"]) for cause in causes}) == 1
    assert data["failures"]["interval"] == 2048
    assert min(cause["first"] for cause in causes) == "2026-11-27 00:03:00"
    told = json.loads(run("symbolicate", FLEET, "--json", stdin=timed(LOG)).stdout)["files"][0]["causes"]
    assert [cause["first"] for cause in causes] == [cause["first_time"] for cause in told]


def test_the_span_of_times_is_that_of_their_moments(tmp_path: Path) -> None:
    stamps = {b"488": b"Nov 30 10:00:00", b"088": b"Dec  1 10:00:00", b"719": b"Nov 30 09:00:00"}
    log = b"".join(stamp + b" E " + FAILURE.replace(b"488", handle) for handle, stamp in stamps.items())
    data = data_of(page_of(tmp_path, log))
    assert data["failures"]["span"] == ["Nov 30 09:00:00", "Dec  1 10:00:00"]
    last = [cause["last"] for cause in sorted(causes_of(data), key=lambda cause: cause["seconds"])]
    assert last == ["Nov 30 09:00:00", "Nov 30 10:00:00", "Dec  1 10:00:00"]


def test_what_is_not_explained_is_counted_and_told(tmp_path: Path) -> None:
    unknown = FAILURE.replace(b"259710398", b"123456789")
    data = data_of(page_of(tmp_path, FAILURE + unknown + unknown))
    assert data["failures"]["unexplained"] == 2
    assert any(note.startswith("line 2: ") for note in data["failures"]["notes"])
    assert "2 models without failures here" in data["failures"]["notes"]


@pytest.mark.parametrize("show", ["full", "basename", "none"])
def test_source_is_shown_as_asked(tmp_path: Path, show: str) -> None:
    page = data_of(page_of(tmp_path, LOG, "--source", show))
    text = json.dumps(page)
    assert page["failures"]["source"] == show
    assert ("models/ranker.py" in text) == (show == "full")
    assert ("torch.ones(9)" in text) == (show != "none")
    assert any(cause["link"] for cause in causes_of(page)) == (show != "none")
    assert "ranker.py" in text


@pytest.mark.parametrize("name", ['/src/my"/mo.py', "/src/my\n/mo.py", '"/src/my/mo.p"'])
def test_folders_are_left_out_whatever_their_names(tmp_path: Path, name: str) -> None:
    own = b"models/plain.py"
    model = tmp_path / "model.ptl"
    with ZipFile(ORACLES / "plain_stack.ptl") as old, ZipFile(model, "w") as new:
        for record in old.infolist():
            new.writestr(record.filename, old.read(record).replace(own, name.rjust(len(own), "/").encode()))
    log = b"failed\nDebug info for handle(s): debug_handles:{1445}, was not found.\n"
    for show, has in (("full", True), ("basename", False)):
        data = data_of(page_of(tmp_path, log, "--source", show, models=model))
        (cause,) = causes_of(data)
        assert cause["excerpt"]
        assert ("/src" in json.dumps(data["failures"])) == has


def test_one_model_needs_no_names(tmp_path: Path) -> None:
    data = data_of(page_of(tmp_path, FAILURE, models=FLEET / "Ranker.ptdbg"))
    (cause,) = causes_of(data)
    assert (data["failures"]["models"], cause["models"], cause["line"]) == (["Ranker.ptdbg"], [0], 91)
    assert cause["link"] is not None


def test_a_log_without_failures_has_a_page(tmp_path: Path) -> None:
    data = data_of(page_of(tmp_path, b"all is well\n"))
    assert (causes_of(data), data["failures"]["unexplained"], data["models"]) == ([], 0, [])


def test_the_same_log_gives_the_same_bytes(tmp_path: Path) -> None:
    assert page_of(tmp_path, timed(LOG)) == page_of(tmp_path, timed(LOG))


def test_lines_and_names_of_strangers_stay_data(tmp_path: Path) -> None:
    """They are packed, so that neither markup nor a hidden character stands in the file itself."""
    log = b"".join(text + b" RuntimeError: " + text + b"\n" + FAILURE for text in HOSTILE)
    name = "a<script>alert(1)</script>\u202e.log".replace("/", "_")
    page = page_of(tmp_path, log, name=name)
    assert page.count(b"<script") == 2
    without_script = re.sub(rb"<script>.*</script>", b"", page, flags=re.DOTALL)
    assert b"onerror" not in without_script
    assert not HIDDEN.search(without_script)
    assert data_of(page)["failures"]["log"] == name


def test_a_page_replaces_only_what_it_may(tmp_path: Path) -> None:
    (tmp_path / "f.html").write_bytes(b"mine")
    words = ("symbolicate", FLEET, "--log", FLEET / "unique.log", "--html", tmp_path / "f.html")
    done = run(*words)
    assert (done.returncode, (tmp_path / "f.html").read_bytes()) == (2, b"mine")
    assert b"--force" in done.stderr
    assert run(*words, "--force").returncode == 0
    assert b"<!doctype html>" in (tmp_path / "f.html").read_bytes()[:20]


def test_a_page_is_of_a_log() -> None:
    done = called("symbolicate", FLEET / "Ranker.ptdbg", "488", "--html", "f.html")
    assert (done.exit_code, "are for logs" in done.stderr) == (2, True)


@pytest.mark.parametrize("report", cases(), ids=lambda report: report.path.name)
def test_each_kind_of_failure_of_torchscript_opens_at_its_line(report: Report) -> None:
    check_lines(report.path, report.stripped)


@pytest.mark.parametrize("name", FAILING)
def test_each_failure_of_an_exported_program_opens_at_its_line(name: str) -> None:
    check_lines(EXPORTED / f"{name}.pt2", text(name, "interpreter.stripped"))


def check_lines(model: Path, log: bytes) -> None:
    """Causes link to the line that their text marks; without paths, no text has a folder of a file."""
    with archive.open(model) as opened:
        explainer = LogExplainer.of(opened)
        explainer.causes.room = 1 << 20
        b"".join(explainer.explain([log]))
        full, base = (
            failures_facts(explainer, opened, "app.log", shown) for shown in (Shown.FULL, Shown.BASENAME)
        )
    for cause in causes_of(full):
        if cause["link"] is not None:
            source = full["models"][0]["sources"]["files"][cause["link"][1]]
            units = source["text"].encode("utf-16-le")[2 * cause["link"][2] :]
            line = units.decode("utf-16-le").partition("\n")[0].strip()
            marked = [cause["excerpt"].split("\n")[at].strip() for at in cause["marked"]]
            assert line in marked
            call = re.fullmatch(r"(.+)\((\d+)\): .+", line)  # of a Python stack
            assert call is None or (call[1], int(call[2])) == (cause["file"], cause["line"])
            own = re.findall(r'(?m)^ *File "(.+)", line|^(.+)\(\d+\): ', cause["excerpt"])
            assert not is_pytorchs(cause["file"]) or all(is_pytorchs(max(names)) for names in own)
        assert cause["link"] is not None or not cause["file"]
    for cause in causes_of(base):
        assert not re.search(r'File "[^"\n]*/[^"\n]*", line', cause["excerpt"])
    assert "site-packages" not in json.dumps(base)


def test_what_does_not_fit_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = data_of(page_of(tmp_path, LOG))
    rows = len(causes_of(whole))
    monkeypatch.setattr("archive.page.failures.MOST_BYTES", 4_000)
    less = data_of(page_of(tmp_path, LOG))
    assert 0 < len(causes_of(less)) < rows
    assert causes_of(less) == [{**cause, "link": None} for cause in causes_of(whole)][: len(causes_of(less))]
    notes = " ".join(less["failures"]["notes"])
    assert "sources of some models are left out" in notes
    assert f"{rows - len(causes_of(less))} causes left out" in notes
    monkeypatch.setattr("archive.page.failures.MOST_BYTES", 1_000)
    without = " ".join(data_of(page_of(tmp_path, LOG, "--source", "none"))["failures"]["notes"])
    assert "causes left out" in without
    assert "sources of some models" not in without


def test_a_model_that_no_cause_names_is_left_out_with_the_causes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    others = [line for line in LOG.splitlines(keepends=True) if b"{259710398" not in line]
    log = 2 * FAILURE + b"".join(others)  # the most frequent cause is of the model with fewest failures
    whole = data_of(page_of(tmp_path, log))["failures"]
    monkeypatch.setattr("archive.page.failures.MOST_BYTES", 600)
    less = data_of(page_of(tmp_path, log))["failures"]
    rows = len(less["causes"]["count"])
    named, before = (
        [[page["models"][number] for number in numbers] for numbers in page["causes"]["models"][:rows]]
        for page in (less, whole)
    )
    assert named == before
    assert named[0] == ["Ranker.ptdbg"]
    assert whole["models"].index("Ranker.ptdbg") == 2
    assert len(less["models"]) < 3


def test_notes_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "Ranker.ptdbg").write_bytes((FLEET / "Ranker.ptdbg").read_bytes())
    for number in range(5):
        (models / f"{'long' * 50}{number}.ptdbg").write_bytes((FLEET / "Ranker.ptdbg").read_bytes()[:-9])
    monkeypatch.setattr("archive.page.failures.MOST_NOTES", 3)
    monkeypatch.setattr("archive.page.failures.LONGEST_NOTE", 100)
    notes = data_of(page_of(tmp_path, FAILURE, models=models))["failures"]["notes"]
    assert [note.startswith("not read: ") for note in notes] == [False, True, True, False]
    assert notes[-1] == "3 further notes"
    assert max(map(len, notes)) == 100


@pytest.mark.parametrize("show", ["full", "basename", "none"])
def test_models_of_one_name_are_told_apart(tmp_path: Path, show: str) -> None:
    for name in ("Ranker", "Encoder"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "m.ptdbg").write_bytes((FLEET / f"{name}.ptdbg").read_bytes())
    data = data_of(page_of(tmp_path, LOG, "--source", show, models=tmp_path / "models"))["failures"]
    names = {"Ranker/m.ptdbg", "Encoder/m.ptdbg"}
    assert set(data["models"]) == (names if show == "full" else {"m.ptdbg (1 of 2)", "m.ptdbg (2 of 2)"})


@pytest.mark.parametrize("count", [1, 2])
def test_a_model_has_the_label_of_its_release(tmp_path: Path, count: int) -> None:
    models, model = tmp_path / "models", ORACLES / "plain_stack.ptl"
    models.mkdir()
    well("split", model, "-o", tmp_path / "small.ptl", "-c", models / "m.ptdbg", "--label", "1.4.2")
    if count > 1:
        (models / "Ranker.ptdbg").write_bytes((FLEET / "Ranker.ptdbg").read_bytes())
    log = next(report for report in cases() if report.path == model).stripped
    asked = models if count > 1 else models / "m.ptdbg"
    data = data_of(page_of(tmp_path, log, models=asked))["failures"]
    assert data["models"] == ["m.ptdbg (1.4.2)"]


@pytest.mark.parametrize("show", ["full", "basename", "none"])
def test_notes_with_paths_are_shown_where_paths_are(tmp_path: Path, show: str) -> None:
    report = next(report for report in cases() if report.path != ORACLES / "plain_stack.ptl")
    log = report.stripped + FAILURE
    page = page_of(tmp_path, log, "--source", show, models=ORACLES / "plain_stack.ptl")
    notes = " ".join(data_of(page)["failures"]["notes"])
    assert ("code/__torch__" in notes) == (show == "full")
    assert ("1 note that may have paths: --source full shows them" in notes) == (show != "full")
    assert "259710398000000488" in notes


def test_source_and_force_are_refused_where_no_page_is_written() -> None:
    for words in (["42", "--source", "none"], ["42", "--force"], ["--source", "basename"]):
        done = called("symbolicate", ORACLES / "plain_stack.ptl", *words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "--source and --force are for --html" in done.stderr


def test_a_log_without_failures_names_no_model(tmp_path: Path) -> None:
    page = page_of(tmp_path, b"all is well\n", models=ORACLES / "plain_stack.ptl")
    assert data_of(page)["failures"]["models"] == []
    assert data_of(page)["models"] == []
