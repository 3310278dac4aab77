"""``archive.explain``, and explanations that are sent to other processes."""

from __future__ import annotations

import pickle

import pytest

import archive
from archive import ArchiveError
from archive.fleet.models import Model
from tests.fleet.test_three_models import FAILURES, FLEET, NAMES
from tests.support.corpus import ORACLES


def test_a_log_is_explained_by_files_or_a_folder() -> None:
    log = [one.unique.encode() + b"\n" for one in FAILURES]
    expected = "".join(one.explained + "\n" for one in FAILURES).encode()
    for models in (FLEET, str(FLEET), [FLEET / f"{name}.ptdbg" for name in NAMES]):
        assert b"".join(archive.explain(log, models)) == expected


def test_models_are_closed_where_the_log_ends_or_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[archive.Archive] = []
    closed: list[archive.Archive] = []
    open_model, close = Model.open, archive.Archive.close

    def noted(model: Model) -> archive.Archive:
        opened.append(open_model(model))
        return opened[-1]

    def noting(one: archive.Archive) -> None:
        closed.append(one)
        close(one)

    monkeypatch.setattr(Model, "open", noted)
    monkeypatch.setattr(archive.Archive, "close", noting)
    log = [one.plain.encode() + b"\n" for one in FAILURES[:3]]
    list(archive.explain(log, FLEET))
    left = archive.explain(log, FLEET)
    next(iter(left))
    left.close()  # type: ignore[attr-defined]
    assert opened
    assert {id(one) for one in opened} == {id(one) for one in closed}


def test_a_pattern_that_is_none_is_an_error() -> None:
    with pytest.raises(ArchiveError, match="no regular expression"):
        list(archive.explain([b""], FLEET, names="("))


@pytest.mark.parametrize("file", ["lowered_shape.ptl", "plain_unicode.ptl"])
def test_an_explanation_can_be_pickled_and_needs_no_file_then(file: str) -> None:
    with archive.open(ORACLES / file) as opened:
        for handle in opened.handles:
            found = opened.symbolicate(handle)
            data, text = pickle.dumps(found), bytes(found)
            again = pickle.loads(data)  # noqa: S301 (made here)
            assert bytes(again) == text
            assert (again.handles, again.module_hierarchy) == (found.handles, found.module_hierarchy)
            assert [entry.op for entry in again.entries] == [entry.op for entry in found.entries]
            assert [frame.range and frame.range.line for frame in again.frames] == [
                frame.range and frame.range.line for frame in found.frames
            ]
