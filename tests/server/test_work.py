"""What a worker does, called in this process."""

from __future__ import annotations

import errno
import json
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import archive
from archive.base.errors import ArchiveError, LimitError
from archive.server import work
from archive.server.problems import HttpProblem
from archive.server.settings import LONGEST_DETAIL
from archive.store.store import Store
from tests.failures.models.test_three_models import FLEET
from tests.support.corpus import ORACLES
from tests.support.servers import FILES, store_of

if TYPE_CHECKING:
    from pathlib import Path

LOG = b"".join((FLEET / "plain.log").read_bytes().splitlines(keepends=True)[:50])
NAMED = work.Sent("m.ptl", "m", "123", replace=False, label="")


class Task(NamedTuple):
    """The files of a request, and its store."""

    body: Path
    answer: Path
    store: Path

    def sent(self, data: bytes) -> tuple[Path, Path]:
        """The files, once the body is there."""
        self.body.write_bytes(data)
        return self.body, self.answer

    @property
    def facts(self) -> Any:  # noqa: ANN401 (JSON)
        return json.loads(self.answer.read_bytes())


@pytest.fixture
def task(tmp_path: Path) -> Task:
    store = store_of(tmp_path / "store")
    work.prepare(str(store), 1 << 20)
    return Task(tmp_path / "body", tmp_path / "answer", store)


def test_a_log_is_explained_as_text_and_as_json(task: Task) -> None:
    text = b"".join(archive.explain([LOG], FLEET))
    said = work.explain_text(*task.sent(LOG), None, None)
    assert isinstance(said, work.Explained)
    assert (said.models, said.explained + said.ambiguous, said.unknown) == (3, 10, 0)
    assert task.answer.read_bytes() == text
    request = json.dumps({"log": LOG.decode(), "top": 1}).encode()
    assert work.explain_json(*task.sent(request)) == said
    assert (task.facts["log"], len(task.facts["causes"])) == (text.decode(), 1)


def test_handles_are_looked_up_in_the_model_that_they_or_the_request_name(task: Task) -> None:
    for request in ({"handles": ["259710398000000488"]}, {"handles": [488], "archive": "2597103980"}):
        assert work.explain_json(*task.sent(json.dumps(request).encode())) is None
        assert task.facts["module_hierarchy"] == "top(Ranker)::<unknown>.aten::mul"
    for nobody in ({"handles": [488]}, {"handles": [488], "archive": "0" * 32}):
        refused = work.explain_json(*task.sent(json.dumps(nobody).encode()))
        assert isinstance(refused, HttpProblem)
        assert refused.status == 404


def test_an_answer_that_is_too_long_is_refused(task: Task) -> None:
    work.prepare(str(task.store), len(LOG) + 100)
    refused = work.explain_text(*task.sent(LOG), None, None)
    assert isinstance(refused, HttpProblem)
    assert (refused.status, refused.detail) == (
        413,
        f"the log or its explanation would exceed {len(LOG) + 100:,} bytes; send the log in parts",
    )


def test_a_companion_is_added_with_what_it_does_not_hold_itself(task: Task, tmp_path: Path) -> None:
    archive.split(ORACLES / "plain_stack.ptl", tmp_path / "left.ptl", tmp_path / "m.ptdbg")
    data = (tmp_path / "m.ptdbg").read_bytes()
    assert work.add(*task.sent(data), NAMED) is True
    assert task.facts["outcome"] == "added"
    assert work.add(*task.sent(data), NAMED) is False
    with Store.open(task.store) as store:
        entry = store.one("Stack")
    assert (entry.root, entry.facts.serialization_id, entry.file) == ("m", "123", "m.ptl")
    archive.split(
        ORACLES / "plain_stack.ptl", tmp_path / "left.ptl", tmp_path / "m.ptdbg", salt="2", force=True
    )
    data = (tmp_path / "m.ptdbg").read_bytes()
    taken = work.add(*task.sent(data), NAMED)
    assert isinstance(taken, HttpProblem)
    assert taken.status == 409
    assert work.add(*task.sent(data), NAMED._replace(replace=True)) is True
    assert task.facts["outcome"] == "replaced"


def test_a_store_that_cannot_be_read_is_told_and_one_that_comes_back_is_used(task: Task) -> None:
    away = task.store.with_name("away")
    task.store.rename(away)
    work.prepare(str(task.store), 1 << 20)
    refused = work.explain_text(*task.sent(LOG), None, None)
    assert isinstance(refused, HttpProblem)
    assert refused.status == 503
    away.rename(task.store)
    said = work.explain_text(*task.sent(LOG), None, None)
    assert isinstance(said, work.Explained)
    assert said.models == 3


def test_a_companion_that_is_broken_for_now_is_asked_again(task: Task) -> None:
    """A failure that may be of it stays meanwhile: it is not another's."""
    with Store.open(task.store) as store:
        kept = store.folder.kept_path(store.one("Ranker").archive_id)
    whole = kept.read_bytes()
    for content, explained in ((whole[:-9], 0), (whole, 7)):
        kept.write_bytes(content)
        said = work.explain_text(*task.sent(LOG), None, None)
        assert isinstance(said, work.Explained)
        assert (said.models, said.explained) == (3, explained)


def test_models_come_and_go_with_the_store(task: Task) -> None:
    shutil.rmtree(task.store)
    store_of(task.store, FILES[:1])
    said = work.explain_text(*task.sent(LOG), None, None)
    assert isinstance(said, work.Explained)
    assert said.models == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OSError(errno.ENOSPC, "full"), 507),
        (OSError(errno.EIO, "broken"), 500),
        (LimitError("output", 1, 2), 413),
        (ArchiveError("no"), 400),
        (KeyError("x"), 500),
    ],
)
def test_every_error_has_a_status_and_a_short_line(error: Exception, status: int) -> None:
    refused = work._refused(error)
    assert refused.status == status
    assert "\n" not in refused.detail
    assert len(work._refused(ArchiveError("x" * 9_999)).detail) <= LONGEST_DETAIL
