"""What belongs together is found: an archive, what `split` left of it, its companion, wherever they lie."""

from __future__ import annotations

import io
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.base.limits import Steps
from archive.failures.explainer import LogExplainer
from archive.failures.lite import lite_answers
from archive.reader.split_handles import prefix_of
from archive.store.store import Store
from tests.support.commands import run
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.reports import case, cases

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.reports import Report

NAMES = ("plain_unicode.ptl", "plain_free_functions.pt", "plain_stack.ptl", "plain_stack.pt")
JIT = case("plain_free_functions.jit")
LOGS = {
    "unique handles": (ORACLES / "plain_unicode.unique.txt").read_bytes(),
    "code": JIT.stripped,
    "a node": (FIXTURES / "exported" / "shop.interpreter.stripped.txt").read_bytes(),
}
LOG = b"".join(LOGS.values())


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of `split`'s own example: models/, small/ and companions/."""
    folder = tmp_path_factory.mktemp("build")
    (folder / "models").mkdir()
    for path in [*(ORACLES / name for name in NAMES), FIXTURES / "exported" / "shop.pt2"]:
        shutil.copy(path, folder / "models")
    for path in (folder / "models").iterdir():
        small, companion = folder / "small" / path.name, folder / "companions" / f"{path.name}.ptdbg"
        small.parent.mkdir(exist_ok=True)
        companion.parent.mkdir(exist_ok=True)
        archive.split(path, small, companion)
    shutil.copytree(folder / "small", folder / "together")
    shutil.copytree(folder / "companions", folder / "together", dirs_exist_ok=True)
    with Store.open(folder / "store", create=True) as store:
        for companion in (folder / "companions").iterdir():
            store.add(companion)
    return folder


LAYOUTS = ("models", "together", "small companions", "companions small", "small store", "store small")


@pytest.mark.parametrize("layout", [*LAYOUTS, "small/* companions/*"])
def test_failures_are_explained_wherever_archives_and_companions_lie(layout: str, build: Path) -> None:
    sources = [path for word in layout.split() for path in sorted(build.glob(word))]
    explainer = explainer_of(models_in(sources))
    out = b"".join(explainer.explain([LOG]))
    assert (explainer.explained, explainer.notes) == (3, [])
    assert out == b"".join(explainer_of(models_in([build / "models"])).explain([LOG]))
    assert JIT.full in out
    if "store" not in layout:
        assert len(models_in(sources)) == len(NAMES) + 1


def test_the_command_takes_the_folders_of_splits_example(build: Path) -> None:
    done = run("symbolicate", build / "small", build / "companions", stdin=LOG)
    assert done.returncode == 0
    assert b"3 failures, 5 models: 3 explained, 0 ambiguous" in done.stderr


@pytest.mark.parametrize(
    ("sources", "kind", "note"),
    [
        (
            ("small",),
            "code",
            "plain_free_functions.pt, without its debug info; if `split` took it out, give its",
        ),
        (
            ("small",),
            "unique handles",
            "archive id 11d689d1d5c3ca2d77a841d2330241d3: give it, or a --store",
        ),
        (("small",), "a node", "small/shop.pt2, without its debug info; if `split` took it"),
        (("small/plain_free_functions.pt",), "code", "5fa7cd (-c COMPANION, or --store STORE)"),
    ],
)
def test_a_note_names_the_remedy(sources: tuple[str, ...], kind: str, note: str, build: Path) -> None:
    done = run("symbolicate", *(build / source for source in sources), stdin=LOGS[kind])
    assert (done.returncode, done.stdout) == (1, LOGS[kind])
    with archive.open(build / "small" / "plain_free_functions.pt") as opened:
        wanted = note.replace("5fa7cd", opened.archive_id.hex())
    assert wanted in done.stderr.decode()


def rebuilt(path: Path, old: bytes, new: bytes) -> bytes:
    """The same code with other source."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data.replace(old, new) if name.endswith(".debug_pkl") else data)
    return out.getvalue()


def test_of_builds_with_one_code_and_other_source_none_is_chosen(tmp_path: Path) -> None:
    """They have one archive id, and what `split` leaves of them has the same code."""
    (tmp_path / "small").mkdir()
    for name in ("plain", "plane"):
        data = rebuilt(JIT.path, b"models/plain.py", f"models/{name}.py".encode())
        archive.split(data, tmp_path / "small" / f"{name}.pt", tmp_path / f"{name}.ptdbg")
    ids = {archive.open(path).archive_id for path in (tmp_path / "small").iterdir()}
    assert len(ids) == 1
    both = explainer_of(models_in([tmp_path]))
    assert b"".join(both.explain([JIT.stripped])) == JIT.stripped
    assert ": ambiguous: fits " in both.notes[0]
    for name in ("plain", "plane"):
        one = explainer_of(models_in([tmp_path / "small" / "plain.pt", tmp_path / f"{name}.ptdbg"]))
        out = b"".join(one.explain([JIT.stripped]))
        assert out == JIT.full.replace(b"models/plain.py", f"models/{name}.py".encode())


def test_an_archive_with_other_unique_handles_is_no_companions_other_half(tmp_path: Path) -> None:
    path = ORACLES / "plain_unicode.ptl"
    for salt in ("a", "b"):
        archive.split(path, tmp_path / f"{salt}.ptl", tmp_path / f"{salt}.ptdbg", salt=salt)
    models = models_in([tmp_path / "a.ptl", tmp_path / "b.ptdbg"])
    assert [model.file for model in models.all] == [str(tmp_path / "a.ptl"), str(tmp_path / "b.ptdbg")]
    assert len(models_in([tmp_path]).all) == 2


UNIQUE = [report for report in cases() if b"debug_handles:{" in report.stripped]


@pytest.mark.parametrize("report", UNIQUE, ids=lambda report: report.path.stem)
def test_the_untouched_archive_explains_the_handles_that_split_makes_unique(report: Report) -> None:
    digits = report.stripped.partition(b"debug_handles:{")[2].partition(b"}")[0].decode()
    with archive.open(report.path) as opened:
        explainer = LogExplainer.of(opened)
        plain = b"".join(explainer.explain([report.stripped]))
        splits = explainer.answers.made(lite_answers).splits  # type: ignore[attr-defined]
        prefix = prefix_of(opened)
        for reading in splits.fitting(digits, Steps(1 << 20)):
            inner = [str(handle) for handle in reading if splits.operations[handle].method < 0]
            outer = [f"{prefix}{handle:08}" for handle in reading if splits.operations[handle].method >= 0]
            log = report.stripped.replace(digits.encode(), "".join([*inner, *outer]).encode())
            one = LogExplainer.of(opened)
            if b"".join(one.explain([log])) == plain:
                break
        else:
            pytest.fail("no reading explains it")
        assert (one.explained, one.named, one.caveat) == (1, 1, "")
        assert bytes(opened.symbolicate(int(outer[-1]))) == bytes(opened.symbolicate(int(outer[-1][10:])))
        stranger = log.replace(str(prefix).encode(), str(prefix ^ 1).encode())
        left = LogExplainer.of(opened)
        assert b"".join(left.explain([stranger])) == stranger


def test_a_folder_of_untouched_archives_is_asked_by_the_prefix_after_split(build: Path) -> None:
    models = models_in([build / "models"])
    assert not models.by_prefix
    prefix = 3305495804
    assert [model.file for model in models.of_prefix(prefix)] == [str(build / "models" / "plain_unicode.ptl")]
    assert models.of_prefix(prefix + 1) == models.of_prefix(0) == ()
