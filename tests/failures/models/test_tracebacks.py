"""TorchScript's tracebacks of many models: a traceback quotes the code of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in, models_of
from archive.failures.models.models import Models
from archive.failures.traceback_failures import TracebackFailure
from archive.store.store import Store
from tests.support.corpus import ORACLES
from tests.support.halves import halves
from tests.support.reports import Report, case
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import pytest

    from archive.failures.answers import ArchiveAnswers
    from archive.failures.models.models import Model
    from archive.reader.archive import Archive

NAMES = [path.name.removesuffix(".stripped.txt") for path in sorted(ORACLES.glob("*.jit.stripped.txt"))]
REPORTS = [case(name) for name in NAMES]
TRACEBACKS = [one for one in REPORTS if b"Traceback of TorchScript" in one.stripped]


def explained(report: Report, models: Models | list[Path]) -> tuple[bytes, int, int, list[str]]:
    explainer = explainer_of(models if isinstance(models, Models) else models_in(models))
    text = b"".join(explainer.explain([report.stripped]))
    return text, explainer.explained, explainer.ambiguous, explainer.notes


def test_each_is_explained_by_its_own_archive_or_told() -> None:
    models = models_in(sorted({one.path for one in REPORTS}))
    counts = {"explained": 0, "ambiguous": 0}
    for one in TRACEBACKS:
        text, done, ambiguous, notes = explained(one, models)
        assert text == (one.full if done else one.stripped)
        assert done + ambiguous == 1
        assert done or "and nothing says which" in notes[0]
        counts["explained" if done else "ambiguous"] += 1
    assert counts["explained"] > 10


def test_versions_are_answered_as_if_each_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once two texts have differed, those of others aren't made."""
    report = case("plain_free_functions.jit")
    (tmp_path / "0.pt").write_bytes(report.path.read_bytes())
    archive.redact(report.path, tmp_path / "1.pt", tmp_path / "1.taken", paths="basename")
    archive.redact(report.path, tmp_path / "2.pt", tmp_path / "2.taken", paths="none")
    models = [tmp_path / f"{number}.pt" for number in range(3)]
    known = explained(report, models)
    monkeypatch.setattr(TracebackFailure, "possible", TracebackFailure.answer)
    assert explained(report, models) == known
    assert known[1:3] == (0, 1)
    assert all(f"{number}.pt" in known[3][0] for number in range(3))


def halved(folder: Path, *reports: Report, small: bool = False) -> Path:
    """A folder of companions, and of the archives that they were split from."""
    for one in reports:
        left, companion, _ = halves(one.path)
        (folder / f"{one.path.stem}.ptdbg").write_bytes(companion)
        if small:
            (folder / f"{one.path.stem}.pt").write_bytes(left)
    return folder


def test_of_several_companions_none_explains_code_that_it_cannot_compare(tmp_path: Path) -> None:
    one = case("plain_free_functions.jit")
    folder = halved(tmp_path, one, case("lowered_shape.jit"))
    text, done, ambiguous, (note,) = explained(one, [folder])
    assert (text, done, ambiguous) == (one.stripped, 0, 1)
    assert "plain_free_functions.ptdbg, but nothing proves it: " in note
    assert note.endswith(
        "; add the archive, give the FILE that failed, or --id or --model for its name in the log, or split "
        "with --fingerprints"
    )


def test_where_the_log_has_only_a_label_the_note_says_what_would_prove_the_model(tmp_path: Path) -> None:
    one = case("plain_free_functions.jit")
    store = Store.open(tmp_path / "symbols", create=True)
    store.add(halved(tmp_path, one) / "plain_free_functions.ptdbg", label="1.2")
    explainer = explainer_of(models_of(store), names=r"release (\S+)")
    log = b"running release 1.2\n" + one.stripped
    assert b"".join(explainer.explain([log])) == log
    assert (
        "have the log say NAME@1.2 or an id (a label alone proves no model), or split" in explainer.notes[0]
    )
    named = log.replace(b"1.2", b"plain_free_functions.ptdbg@1.2")
    assert one.full in b"".join(explainer_of(models_of(store), names=r"release (\S+)").explain([named]))


def test_no_archive_is_asked_for_where_digests_of_lines_are_at_hand(tmp_path: Path) -> None:
    """Both versions have the lines that the log shows: an archive would say no more."""
    one, other = case("plain_free_functions.jit"), tmp_path / "other.pt"
    archive.redact(one.path, other, tmp_path / "taken", paths="basename")
    (folder := tmp_path / "companions").mkdir()
    for fingerprints, note in ((False, "; add the archives, give"), (True, "; give the FILE that failed")):
        for path in (one.path, other):
            companion = folder / f"{path.stem}.ptdbg"
            archive.split(path, tmp_path / "small", companion, fingerprints=fingerprints, force=True)
        *_, ambiguous, (said,) = explained(one, [folder])
        assert (ambiguous, note in said) == (1, True)


def test_one_companion_explains_it_and_the_note_says_that_nothing_proves_it(tmp_path: Path) -> None:
    one = case("plain_free_functions.jit")
    text, done, _, (note,) = explained(one, [halved(tmp_path, one)])
    assert (text, done) == (one.full, 1)
    assert note.startswith("line 2: nothing proves it")


def test_a_folder_compares_the_code_of_archives_beside_their_companions(tmp_path: Path) -> None:
    own = case("plain_free_functions.jit")
    some = [*sampled(TRACEBACKS, most=8), own]
    folder = halved(tmp_path, *{one.path: one for one in some}.values(), small=True)
    models = models_in([folder])
    assert len(models) == len({one.path.stem for one in some})
    for one in some:
        text, done, ambiguous, notes = explained(one, models)
        assert text == (one.full if done else one.stripped)
        assert (done + ambiguous, any("proves" in note for note in notes)) == (1, False)
    assert explained(own, models)[:3] == (own.full, 1, 0)
    twin = own._replace(
        stripped=own.stripped.replace(b"    factor: float) -> Tensor:", b"    factor: int) -> Tensor:")
    )
    twin = twin._replace(stripped=twin.stripped.replace(b"def scale(x: Tensor,", b"def scale(y: Tensor,"))
    assert explained(twin, models)[:3] == (twin.stripped, 0, 0)


def test_an_archive_with_several_companions_is_one_model_and_a_note_tells_them_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds of one code have the same archive id, and each other source."""
    monkeypatch.chdir(tmp_path)  # a note has few characters
    one, other = case("plain_free_functions.jit"), tmp_path / "other.pt"
    archive.redact(one.path, other, tmp_path / "taken", paths="basename")
    folders = []
    for path, build in ((one.path, "v1"), (other, "v2")):
        folders += [Path(build, "small"), Path(build, "companions")]
        for folder in folders[-2:]:
            folder.mkdir(parents=True)
        archive.split(path, folders[-2] / "net.pt", folders[-1] / "net.ptdbg")
    models = models_in(folders)
    assert len(models) == 2
    names = [model.file for model in models.all]
    assert len(set(names)) == len(names) == 4
    assert {name.partition(" with ")[0] for name in names} == {
        str(folder / "net.pt") for folder in folders[::2]
    }
    text, done, ambiguous, (note,) = explained(one, models)
    assert (text, done, ambiguous) == (one.stripped, 0, 1)
    assert all(name in note for name in names[:3])
    assert all(
        str(folder / "net.pt") in model.names
        for folder, model in zip(folders[::2], models.all[::2], strict=True)
    )
    only = models_in(folders[:2])
    assert [model.file for model in only.all] == [str(folders[0] / "net.pt")]


def test_of_none_of_the_models_is_told() -> None:
    one = case("plain_free_functions.jit")
    others = [path for path in sorted({one.path for one in REPORTS}) if "plain_free" not in path.name][:3]
    assert explained(one, others) == (one.stripped, 0, 0, ["line 2: traceback: of none of 3 models"])


def test_equal_tracebacks_are_asked_of_all_models_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a logger writes before them."""
    asked: list[str] = []
    one = case("plain_free_functions.jit")
    files = sorted({one.path for one in REPORTS})
    explainer = explainer_of(models_in(files))
    lines = one.stripped.splitlines(keepends=True)
    list(explainer.explain(lines))
    using = Models.using

    def noted(
        models: Models, model: Model, user: object, make: Callable[[Archive], ArchiveAnswers]
    ) -> AbstractContextManager[ArchiveAnswers]:
        asked.append(model.file)
        return using(models, model, user, make)

    monkeypatch.setattr(Models, "using", noted)
    list(explainer.explain([b"E 12:00: " + line for line in lines]))
    assert asked == [str(one.path)]
    assert explainer.explained == 2
