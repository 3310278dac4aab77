"""The failures of three models in one log, whose handles begin near 0: each is its own model's, or told."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.reader.facts import Facts, HandleOwners
from tests.support.corpus import FIXTURES, ORACLES, RELEASES
from tests.support.sampling import sampled, whole_suite

if TYPE_CHECKING:
    from pathlib import Path

    from archive.failures.explainer import LogExplainer
    from archive.failures.models.models import Model, Models

FLEET = FIXTURES / "fleet"
NAMES = {"Ranker": 67, "Encoder": 67, "Detector": 66}


class Failure(NamedTuple):
    """A failure's text: with unique handles, with the original ones, and as PyTorch explains it."""

    model: str
    unique: str
    plain: str
    explained: str


FAILURES = [Failure(**one) for one in json.loads((FLEET / "failures.json").read_text("utf-8"))]


def companions(*names: str) -> LogExplainer:
    """An explainer by the companions of some models."""
    return explainer_of(models_in([FLEET / f"{name}.ptdbg" for name in names or NAMES]))


def open_models(models: Models) -> list[Model]:
    """The models that are open, the one that was used last at the end."""
    return list(models.opened.by_model)


def of_one(explainer: LogExplainer, text: str) -> str:
    return b"".join(explainer.explain([text.encode()])).decode()


def test_unique_handles_name_the_model_of_each_failure() -> None:
    explainer, found = companions(), FAILURES
    assert [of_one(explainer, one.unique) for one in found] == [one.explained for one in found]
    assert (explainer.explained, explainer.unknown, explainer.notes) == (200, 0, [])


@pytest.mark.parametrize("form", ["unique", "plain"])
def test_a_failure_that_comes_again_is_answered_the_same(form: str) -> None:
    once, twice = companions(), companions()
    texts = [getattr(failure, form) for failure in FAILURES[:40]]
    expected = [of_one(once, text) for text in texts]
    log = "".join(texts * 2)
    assert of_one(twice, log) == "".join(expected * 2)
    assert (twice.explained, twice.unknown, twice.ambiguous, twice.named) == (
        *(2 * count for count in (once.explained, once.unknown, once.ambiguous, once.named)),
    )


def test_other_handles_are_explained_by_the_only_model_that_fits_or_told() -> None:
    explainer = companions()
    counts = {"right": 0, "left": 0}
    for one in FAILURES:
        text = of_one(explainer, one.plain)
        counts["left" if text == one.plain else "right"] += 1
        assert text in {one.plain, one.explained}
    assert counts == {"right": 149, "left": 51}
    assert (explainer.explained, explainer.ambiguous, explainer.unknown) == (149, 51, 51)
    listed = " ".join(explainer.notes)
    assert ": ambiguous: fits " in listed
    assert all(f"{name}.ptdbg" in listed for name in NAMES)


def test_a_failure_of_a_model_that_is_missing_is_nobodys() -> None:
    explainer = companions("Ranker", "Encoder")
    for one in FAILURES:
        assert of_one(explainer, one.unique) == (one.unique if one.model == "Detector" else one.explained)
    assert explainer.unknown == NAMES["Detector"]
    assert explainer.notes[0].endswith("if they are unique: of none of 2 models")


def test_the_line_before_may_name_the_model() -> None:
    models = models_in([FLEET / f"{name}.ptdbg" for name in NAMES])
    explainer = explainer_of(models, names=r"running (\w+)")
    for one in FAILURES:
        log = f"running {one.model}\n{one.plain}"
        assert of_one(explainer, log) == f"running {one.model}\n{one.explained}"
    assert explainer.unknown == 0


def test_a_name_of_no_model_leaves_failures_unexplained() -> None:
    models = models_in([FLEET])
    explainer = explainer_of(models, names=r"running (\w+)")
    log = f"running Stranger\n{FAILURES[0].plain}"
    assert of_one(explainer, log) == log
    assert f"line 1 names 'Stranger': none of {len(models)} models has that id" in explainer.notes[0]


def test_an_archive_id_near_the_failure_names_the_model() -> None:
    models = models_in([FLEET / f"{name}.ptdbg" for name in NAMES])
    ids = {}
    for model in models.all:
        with model.open() as opened:
            ids[opened.top] = opened.archive_id.hex()
    explainer = explainer_of(models)
    for one in FAILURES[:50]:
        log = f"W archive={ids[one.model]} failed\n{one.plain}"
        assert of_one(explainer, log).endswith(one.explained)


def test_explanations_that_agree_hold_whichever_model_it_is(tmp_path: Path) -> None:
    twin = tmp_path / "twin.ptdbg"
    twin.write_bytes((FLEET / "Ranker.ptdbg").read_bytes())
    explainer = explainer_of(models_in([FLEET / "Ranker.ptdbg", twin]))
    for one in FAILURES:
        if one.model == "Ranker":
            assert of_one(explainer, one.plain) == one.explained
    assert explainer.ambiguous == 0
    assert {len(group.models) for group in explainer.causes.top()} == {2}


def test_a_failure_that_comes_again_is_of_the_models_that_the_log_names_then(
    tmp_path: Path,
) -> None:
    for name in NAMES:
        for copy in ("one", "two"):
            (tmp_path / f"{name}-{copy}.ptdbg").write_bytes((FLEET / f"{name}.ptdbg").read_bytes())
    logs = [f"running {name}\n{one.plain}" for one in FAILURES[:12] for name in (*NAMES, "Stranger")]
    expected = {log: of_one(named_by_lines(tmp_path), log) for log in logs}
    assert len({text.partition("\n")[2] for text in expected.values()}) > 12
    known = named_by_lines(tmp_path)
    for log in logs * 2:
        assert of_one(known, log) == expected[log]


def named_by_lines(folder: Path) -> LogExplainer:
    return explainer_of(models_in([folder]), names=r"running (\w+)")


def test_a_failure_that_comes_again_may_be_of_a_model_that_cannot_be_read_any_more(tmp_path: Path) -> None:
    twin = tmp_path / "twin.ptdbg"
    twin.write_bytes((FLEET / "Ranker.ptdbg").read_bytes())
    models = models_in([FLEET / "Ranker.ptdbg", twin])
    explainer = explainer_of(models)
    failure = next(one for one in FAILURES if one.model == "Ranker")
    assert of_one(explainer, failure.plain) == failure.explained
    models.unread[str(twin)] = "gone"
    assert of_one(explainer, failure.plain) == failure.plain
    assert "twin.ptdbg" in explainer.notes[0]


def test_failures_are_grouped_by_the_line_of_the_model_that_failed() -> None:
    explainer = companions()
    log = "\n".join(one.unique for one in FAILURES[:60])
    text = of_one(explainer, log * 3)
    assert text.count("Module hierarchy") == 180
    groups = explainer.causes.top()
    assert sum(group.count for group in groups) == 180
    assert {group.count for group in groups} == {3}
    assert {group.cause.file.rpartition("/")[2] for group in groups} == {
        f"{name.lower()}.py" for name in NAMES
    }
    assert [group.first for group in groups] == sorted(group.first for group in groups)


@pytest.mark.torch
@whole_suite
def test_the_frozen_failures_are_what_pytorch_prints(tmp_path: Path) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.failures.models.three_models",
        str(tmp_path),
        "Encoder",
    ]
    subprocess.run(command, cwd=FIXTURES.parent, check=True, capture_output=True)
    made = [
        Failure("Encoder", *texts) for texts in json.loads((tmp_path / "Encoder.json").read_text("utf-8"))
    ]
    assert sorted(made) == sorted(one for one in FAILURES if one.model == "Encoder")
    explainer = explainer_of(models_in([tmp_path / "Encoder.ptl", FLEET / "Ranker.ptdbg"]))
    for one in made:
        assert of_one(explainer, one.plain) in {one.plain, one.explained}


def test_models_that_are_left_unasked_would_have_answered_no(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of closed models only spares questions."""
    others = [*RELEASES.glob("torch-2.*/*.ptl"), *ORACLES.glob("*.ptl")]
    models = [*FLEET.glob("*.ptdbg"), *sampled(sorted(others), most=12)]
    spared = explainer_of(models_in(models))
    some = [text for one in FAILURES[::25] for text in (one.unique, one.plain)]
    texts = [of_one(spared, text) for text in some]
    monkeypatch.setattr(Facts, "may_have_handles", lambda *_: True)
    monkeypatch.setattr(HandleOwners, "of", lambda *_: range(len(models)))
    asked = explainer_of(models_in(models))
    assert [of_one(asked, text) for text in some] == texts
    assert (asked.explained, asked.ambiguous, asked.notes) == (
        spared.explained,
        spared.ambiguous,
        spared.notes,
    )


def facts(prefix: int, *handles: range) -> Facts:
    return Facts("", prefix, "", "", "", handles, frozenset())


@pytest.mark.parametrize(
    ("digits", "may"), [("0", True), ("7", True), ("77", True), ("1999", True), ("1099", False), ("", True)]
)
def test_digits_are_split_into_handles_of_the_model(digits: str, may: bool) -> None:  # noqa: FBT001
    model = facts(1_234_567_890, range(1), range(7, 8), range(1998, 2000), range(12345678, 12345679))
    assert model.may_have_handles(digits) == may
    assert model.may_have_handles(f"{digits}123456789000000007") == may
    assert model.may_have_handles(f"{digits}{'123456789000000007' * 2}") == may
    assert not model.may_have_handles("-1")


def test_handles_of_any_length_and_without_prefix_are_known() -> None:
    one = 345678901234567890
    model = facts(0, range(3, 4), range(12, 13), range(123456789, 123456790), range(one, one + 1))
    for digits in ("123456789", "3123456789", "345678901234567890", "12345678901234567890"):
        assert model.may_have_handles(digits)
    assert not model.may_have_handles("45678901234567890123")
