"""Many models: how many are asked, named and open; files that are none; failures that are nobody's."""

from __future__ import annotations

import os
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from archive import ArchiveError, Limits
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.base.errors import several
from archive.failures.models.candidates import STEPS_ASKED
from archive.failures.models.models import Models
from archive.store.store import Store
from tests.failures.models.test_three_models import FAILURES, FLEET, companions, of_one, open_models
from tests.support.reports import case
from tests.support.zips import SMALL, put, zipped

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = """Traceback of TorchScript (most recent call last):
  File "models/net.py", line 3, in forward
    x
    ~ <--- HERE
RuntimeError: no
"""


def ambiguous() -> str:
    """A failure that several models may have."""
    explainer = companions()
    return next(one.plain for one in FAILURES if of_one(explainer, one.plain) == one.plain)


def test_a_traceback_of_other_code_needs_no_explanation() -> None:
    explainer = companions()
    assert of_one(explainer, PYTHON) == PYTHON
    assert (explainer.unknown, explainer.notes) == (0, [])


def test_where_steps_run_out_a_note_says_how_many_models_were_asked() -> None:
    """No model has explained the failure then, so that it isn't ambiguous."""
    text = ambiguous()
    explainer = explainer_of(models_in([FLEET]), limits=Limits(work=STEPS_ASKED - 1))
    assert of_one(explainer, text) == text
    assert (explainer.explained, explainer.ambiguous, explainer.unknown) == (0, 0, 1)
    (note,) = explainer.notes
    assert "too many steps; --limit work=… allows more (asked 0 of " in note


def test_a_model_that_was_asked_before_steps_ran_out_may_have_failed_so() -> None:
    text = ambiguous()
    explainer = explainer_of(models_in([FLEET]), limits=Limits(work=3 * STEPS_ASKED - 1))
    assert of_one(explainer, text) == text
    assert (explainer.explained, explainer.ambiguous, explainer.unknown) == (0, 1, 1)
    assert "(asked 2 of 3 models" in explainer.notes[0]


@pytest.mark.parametrize(("listed", "told"), [(2, ""), (1, " and 1 more")])
def test_a_note_names_a_few_models_and_counts_the_others(
    listed: int, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("archive.failures.models.candidates.several", partial(several, most=listed))
    for name in ("Ranker", "Encoder"):
        (tmp_path / f"{name}.ptdbg").write_bytes((FLEET / f"{name}.ptdbg").read_bytes())
    explainer = explainer_of(models_in([tmp_path]))
    for one in FAILURES[::5]:
        of_one(explainer, one.plain)
    notes = [note for note in explainer.notes if "ambiguous" in note]
    assert notes
    files = [str(tmp_path / f"{name}.ptdbg") for name in ("Encoder", "Ranker")][:listed]
    remedy = "add the archives, give the FILE that failed, or --id or --model for its name in the log"
    assert all(f": ambiguous: fits {', '.join(files)}{told}; {remedy}" in note for note in notes)


@pytest.mark.parametrize("form", ["unique", "plain"])
def test_few_models_are_open_at_a_time_and_closed_ones_are_opened_again(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the failure names its model, which is asked alone then, or all are asked."""
    monkeypatch.setattr("archive.failures.models.models.MOST_OPEN", 1)
    models = models_in([FLEET])
    explainer = explainer_of(models)
    some = [one for one in FAILURES if one.model != "Detector"][::30]
    for one in [*some, *some]:
        text = getattr(one, form)
        assert of_one(explainer, text) in {one.explained, one.plain}
        assert len(open_models(models)) == 1
    assert {one.model for one in some} == {"Ranker", "Encoder"}
    assert explainer.explained > 2


def test_of_a_folder_all_count_but_what_is_no_model_for_certain(tmp_path: Path) -> None:
    """A torn zip may have been a model: what may be its failure is not explained as another's."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "Ranker.ptdbg").write_bytes((FLEET / "Ranker.ptdbg").read_bytes())
    (tmp_path / "notes.txt").write_text("no model")
    (tmp_path / "torn.pt").write_bytes(put(SMALL, -6, "I", 1 << 30))
    models = models_in([tmp_path])
    assert [model.file for model in models.all] == [
        str(tmp_path / "in" / "Ranker.ptdbg"),
        str(tmp_path / "torn.pt"),
    ]
    assert [len(models) for models in models.by_prefix.values()] == [1]
    assert list(models.unread) == [str(tmp_path / "torn.pt")]
    with pytest.raises(ArchiveError, match=r"torn\.pt"):
        models_in([tmp_path / "torn.pt"])


def test_a_file_of_a_folder_that_asks_for_too_much_is_told_and_the_others_explain(tmp_path: Path) -> None:
    (tmp_path / "Ranker.ptdbg").write_bytes((FLEET / "Ranker.ptdbg").read_bytes())
    many = {f"m__{number}": b"" for number in range(1_000)}
    (tmp_path / "costly.pt").write_bytes(zipped(m__version=b"3\n", **many))
    limits = Limits(memory=900_000)
    models = models_in([tmp_path], limits=limits)
    explainer = explainer_of(models, limits=limits)
    one = next(one for one in FAILURES if one.model == "Ranker")
    assert of_one(explainer, one.unique) == one.explained
    ((file, why),) = models.unread.items()
    assert file == str(tmp_path / "costly.pt")
    assert "memory" in why


@pytest.mark.parametrize("damage", ["a byte", "a byte, seen", "cut", "longer", "empty"])
def test_a_damaged_companion_of_a_store_takes_no_answers_of_others(damage: str, tmp_path: Path) -> None:
    """The index has its facts: failures that they exclude are another model's."""
    with Store.open(tmp_path / "store", create=True) as store:
        for name in ("Ranker", "Encoder", "Detector"):
            store.add(FLEET / f"{name}.ptdbg")
    with Store.open(tmp_path / "store") as store:
        entry = next(one for one in store.entries() if one.facts.top == "Ranker")
        path = store.folder.kept_path(entry.archive_id)
    status, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= damage.startswith("a byte")
    others = {"cut": bytes(data[:-9]), "longer": bytes(data + b"9"), "empty": b""}
    path.write_bytes(others.get(damage, bytes(data)))
    if damage == "a byte":  # the index does not see that the file is another one
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for _ in range(2):  # the index that the first one writes has its facts, too
        explainer = explainer_of(models_in([tmp_path / "store"]))
    some = FAILURES[::5]
    for one in some:
        text = of_one(explainer, one.unique)
        assert text == (one.unique if one.model == "Ranker" else one.explained)
    assert all("and its companion is damaged" in note for note in explainer.notes)
    damaged = sum(one.model == "Ranker" for one in some)
    assert (explainer.explained, explainer.unknown) == (len(some) - damaged, damaged)
    assert damaged > 5
    of_code = case("plain_free_functions.jit")
    with_code = explainer_of(models_in([tmp_path / "store", of_code.path]))
    of_one(with_code, next(one.unique for one in FAILURES if one.model == "Ranker"))
    assert of_one(with_code, of_code.stripped.decode()) == of_code.full.decode()


@pytest.mark.parametrize("whole", [["Detector"], []], ids=["some left", "none left"])
def test_why_a_failure_stays_unexplained_does_not_depend_on_the_order_of_models(
    whole: list[str], tmp_path: Path
) -> None:
    """Of models that can't be read, some have facts, of which some rule a failure out, and some have none."""
    for name in ("Ranker", "Encoder"):
        with Store.open(tmp_path / name, create=True) as store:
            store.add(FLEET / f"{name}.ptdbg")
            (entry,) = store.entries()
            store.folder.kept_path(entry.archive_id).write_bytes(b"damaged")
    for name in ("cut.pt", "torn.pt"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 cut")
    for name in whole:
        (tmp_path / f"{name}.ptdbg").write_bytes((FLEET / f"{name}.ptdbg").read_bytes())
    answers = set()
    known = models_in([tmp_path / "Ranker", tmp_path / "Encoder", tmp_path])
    for order in permutations(known.all):
        models = Models(order)
        models.unread |= known.unread
        explainer = explainer_of(models)
        texts = [of_one(explainer, one.plain) for one in FAILURES[::20]]
        answers.add((*texts, *explainer.notes))
    (answer,) = answers
    assert any("companion is damaged" in line for line in answer)
