"""Models that say the same of each plain handle, trained anew say: one of them is asked for all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive import Limits
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.base.limits import DEFAULT_LIMITS
from archive.companion.build import build_companion
from archive.companion.parse import parse_companion
from archive.failures.lite import LiteFailure
from archive.failures.models import candidates
from archive.reader.facts import HandleOwners, handle_digest
from tests.failures.models.test_three_models import FAILURES, FLEET, facts, of_one
from tests.support.corpus import ORACLES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from archive.failures.failure import Answer
    from archive.failures.one_model import OneModel

SOME = [one.plain for one in FAILURES[::4]]


def twin(number: int, name: str = "Ranker", change: str | None = None, by: int = 1) -> bytes:
    """The companion of a model that was trained anew; or of one of other code, where a column has changed."""
    contents = parse_companion(memoryview((FLEET / f"{name}.ptdbg").read_bytes()))
    columns = {**contents.columns, "file.prefix": np.array([3_000_000_000 + number])}
    if change:
        columns[change] = columns[change].copy()
        columns[change][-1] += by
    contents = replace(contents.with_columns(columns), archive_id=number.to_bytes(16, "big"))
    return build_companion(contents)


def fleet(folder: Path, names: Sequence[str], each: int) -> Path:
    """A folder of so many twins of each model."""
    for number in range(each * len(names)):
        name = names[number % len(names)]
        (folder / f"{number:02}-{name}.ptdbg").write_bytes(twin(number, name))
    return folder


def outcome(folder: Path) -> tuple[object, ...]:
    """All that is said of some failures."""
    models = models_in([folder])
    explainer = explainer_of(models)
    texts = [of_one(explainer, text) for text in SOME]
    for model in models.all:  # named by the log, it is asked for its own reason
        if model.file not in models.unread:
            texts += [of_one(explainer, f"{model.facts.archive_id}\n{text}") for text in SOME[:9:4]]
    groups = [(group.models, group.cause, group.count) for group in explainer.causes.top()]
    counts = explainer.explained, explainer.named, explainer.unknown, explainer.ambiguous
    return texts, counts, explainer.notes, groups, models.unread


def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of the models that are asked from now on."""
    asked: list[str] = []
    answer = LiteFailure.answer

    def note(failure: LiteFailure, model: OneModel) -> Answer:
        asked.append(model.archive.file)
        return answer(failure, model)

    monkeypatch.setattr(LiteFailure, "answer", note)
    return asked


def test_one_of_twins_answers_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch)
    explainer = explainer_of(models_in([fleet(tmp_path, ["Ranker", "Encoder"], 5)]))
    of_one(explainer, SOME[0])
    assert len(asked) == len(set(asked)) == 10  # none is known yet
    asked.clear()
    for text in SOME[1:9]:
        of_one(explainer, text)
    assert len(set(asked)) == 2
    assert len(asked) <= 2 * 8


def test_twins_are_answered_as_if_each_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them can't be read; archives and models of other code are among them."""
    fleet(tmp_path, ["Ranker", "Encoder", "Detector"], 3)
    broken = bytearray(twin(90))
    broken[len(broken) // 2] ^= 1
    (tmp_path / "04-broken.ptdbg").write_bytes(broken)
    (tmp_path / "05-other.ptdbg").write_bytes(twin(91, change="range.end"))
    (tmp_path / "06-archive.ptl").write_bytes((ORACLES / "plain_stack.ptl").read_bytes())
    shared = outcome(tmp_path)
    (tmp_path / "04-broken.ptdbg").unlink()
    whole = outcome(tmp_path)
    assert shared != whole
    monkeypatch.setattr(candidates, "handle_digest", lambda _: b"")
    assert outcome(tmp_path) == whole
    (tmp_path / "04-broken.ptdbg").write_bytes(broken)
    assert outcome(tmp_path) == shared


EDITED: Sequence[str] = ("source.line", "range.end", "handle.op", "handle.tag", "instruction.handle")


@pytest.mark.parametrize("change", [None, *EDITED])
def test_versions_are_answered_as_if_each_was_asked(
    change: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once two have differed, others of the same handles aren't asked."""
    for number, name in enumerate(["Ranker", "Encoder", "Detector"] * 3):
        (tmp_path / f"{number}-{name}.ptdbg").write_bytes(twin(number, name, change, by=number))
    for text in ("plain_stack.ptl", "plain_unicode.ptl"):
        (tmp_path / text).write_bytes((ORACLES / text).read_bytes())
    asked = noted(monkeypatch)
    known, few = outcome(tmp_path), len(asked)
    asked.clear()
    monkeypatch.setattr(candidates, "splitting_digest", lambda _: b"")
    assert outcome(tmp_path) == known
    assert 3 * few < 2 * len(asked) or change not in ("source.line", "range.end")


def digest(data: bytes, limits: Limits = DEFAULT_LIMITS) -> bytes:
    with archive.open(data, limits=limits) as opened:
        return handle_digest(opened)


def test_models_that_say_the_same_of_their_handles_have_one_digest() -> None:
    one = digest(twin(1))
    assert len(one) == 16
    assert digest(twin(2)) == one
    assert digest((FLEET / "Ranker.ptdbg").read_bytes()) == one
    others = [digest(twin(3, "Encoder")), digest(twin(4), Limits(work=9))]
    columns: Sequence[str] = (
        "range.end",
        "source.line",
        "handle.tag",
        "instruction.handle",
        "file.top",
    )
    others += [digest(twin(5, change=column)) for column in columns]
    assert len({one, *others}) == 3 + len(columns)


def test_handles_with_and_without_a_prefix_are_two_things() -> None:
    contents = parse_companion(memoryview((FLEET / "Ranker.ptdbg").read_bytes()))
    columns = {**contents.columns}
    del columns["file.prefix"]
    assert digest(build_companion(contents.with_columns(columns))) != digest(build_companion(contents))


def test_an_archive_with_code_has_no_digest() -> None:
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        assert handle_digest(opened) == b""


RUNS = st.lists(st.integers(0, 130), max_size=6, unique=True).map(
    lambda ends: tuple(range(low, high) for low, high in zip(*[iter(sorted(ends))] * 2, strict=False))
)


@given(st.lists(st.none() | RUNS, max_size=5), st.text("-0123456789", min_size=1, max_size=7))
def test_many_models_are_asked_for_digits_as_each_is(
    runs: list[tuple[range, ...] | None], digits: str
) -> None:
    models = [None if one is None else facts(0, *one) for one in runs]
    may = [at for at, model in enumerate(models) if model is not None and model.may_have_handles(digits)]
    assert HandleOwners(models).of(digits) == may


@pytest.mark.parametrize("handle", [(1 << 63) - 1, 1 << 63, 10**19 - 1])
def test_handles_of_64_bits_are_asked_for(handle: int) -> None:
    most = (1 << 63) - 1
    models = [facts(0, range(5, 6)), facts(0, range(most, most + 1)), facts(0, range(-1, 0))]
    assert HandleOwners(models).of(str(handle)) == [1] * (handle == most)
