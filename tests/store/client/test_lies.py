"""Servers that lie, break or vanish are found out: no failure is explained by what they say."""

from __future__ import annotations

import json
import socket
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_of
from archive.base.digests import digest_of
from archive.base.errors import ArchiveError
from archive.store.client import connection
from archive.store.client.connection import Connection
from archive.store.client.server import Server
from archive.store.entries import COMPANIONS, entry_json, parsed_entry
from archive.store.store import Store
from tests.failures.models.test_three_models import FAILURES, FLEET
from tests.support.commands import explained_by, run
from tests.support.servers import FILES, Said, saying, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    Facts = dict[str, Any]

FIRST = 30
LOG = b"".join((FLEET / "unique.log").read_bytes().splitlines(keepends=True)[: 5 * FIRST])
OTHERS = sum(one.model != "Ranker" for one in FAILURES[:FIRST])
DATA = {file.stem: file.read_bytes() for file in FILES}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own; and no waiting between tries."""
    monkeypatch.setenv("DEBUG_ARCHIVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(connection, "TRIES", 2)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> list[Facts]:
    """What an honest server lists."""
    with Store.open(store_of(tmp_path_factory.mktemp("truth") / "store")) as store:
        return [entry_json(entry, complete=True) for entry in store.entries()]


def server_of(entries: list[Facts], given: dict[str, Said]) -> Callable[[str, BaseHTTPRequestHandler], Said]:
    """A server's answers: a list, and companions by their tops."""
    by_id = {one["archive_id"]: given[one["top"]] for one in entries if one["top"] in given}

    def answer(path: str, _: BaseHTTPRequestHandler) -> Said:
        if path == COMPANIONS:
            return Said(200, json.dumps({"companions": entries, "next": None}).encode())
        return by_id.get(path.removeprefix(f"{COMPANIONS}/"), Said(404))

    return answer


HONEST = {top: Said(200, data) for top, data in DATA.items()}


def test_an_honest_server_explains_every_failure(truth: list[Facts]) -> None:
    with saying(server_of(truth, HONEST)) as url:
        done = run("symbolicate", "--store", url, stdin=LOG)
        assert b"".join(archive.explain([LOG], url)) == explained_by(FLEET, LOG)
    assert done.stdout == explained_by(FLEET, LOG)
    assert done.stderr == b"debug-archive: 30 failures, 3 models: 30 explained, 0 ambiguous\n"


@pytest.mark.parametrize(
    "lie",
    [
        Said(200, DATA["Encoder"]),
        Said(200, DATA["Ranker"][:-1]),
        Said(200, DATA["Ranker"] + b"\0"),
        Said(200, DATA["Ranker"][:100], length=len(DATA["Ranker"])),
        Said(200, bytes(1 << 20)),
        Said(200, b""),
        Said(404),
        Said(500, b"<html>"),
        Said(503, headers=(("Retry-After", "1"),)),
        Said(302, headers=(("Location", "file:///etc/passwd"),)),
        Said(302, headers=(("Location", "ftp://127.0.0.1/x"),)),
        Said(304),
    ],
    ids=lambda lie: f"{lie.status}, {len(lie.data)}",
)
def test_a_companion_that_is_another_cut_or_none_explains_nothing(lie: Said, truth: list[Facts]) -> None:
    with saying(server_of(truth, HONEST | {"Ranker": lie})) as url:
        done = run("symbolicate", "--store", url, stdin=LOG)
    assert done.returncode == 1
    assert b"not read: Ranker@765c5a945fdc: " in done.stderr
    assert f" {OTHERS} explained, ".encode() in done.stderr
    assert done.stdout.count(b"top(Ranker)") == 0


def test_another_companion_of_the_same_facts_explains_nothing(truth: list[Facts], tmp_path: Path) -> None:
    archive.convert(FLEET / "Ranker.ptdbg", tmp_path / "other.ptdbg", "mapped")
    lie = Said(200, (tmp_path / "other.ptdbg").read_bytes())
    entries = [one | {"size": 1 << 20} for one in truth]
    with saying(server_of(entries, HONEST | {"Ranker": lie})) as url:
        done = run("symbolicate", "--store", url, stdin=LOG)
    assert b"gives another companion 765c5a945fdcb44468a450a4c51f42c2 than it lists" in done.stderr
    assert done.stdout.count(b"top(Ranker)") == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"prefix": 1_511_347_656}, "prefix"),
        ({"handles": [[0, 10]]}, "handles"),
        ({"code": ["code/__torch__/encoder.py"]}, "code"),
        ({"top": "Encoder"}, "top"),
        ({"archive_id": "7" * 32}, "archive_id"),
    ],
)
def test_facts_that_the_companion_contradicts_are_told(change: Facts, field: str, truth: list[Facts]) -> None:
    """By wrong facts, one model's failure could be taken for another's."""
    lying = [one | change if one["top"] == "Ranker" else one for one in truth]
    entry = next(one for one in lying if one["file"] == "Ranker.ptdbg")
    lying.sort(key=lambda one: one["archive_id"])
    told = pytest.raises(ArchiveError, match=f"contradicts what its server lists: {field}")
    with saying(server_of(lying, HONEST | {entry["top"]: HONEST["Ranker"]})) as url, told:
        server = Server(url)
        (listed,) = (one for one in server.entries() if one.archive_id == entry["archive_id"])
        server.opened_of(listed)


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"[]",
        b"{}",
        b'{"companions": 1}',
        b'{"companions": [1]}',
        b"[" * 100_000,
        b"\xff",
        b'{"companions": [{"archive_id": "x"}]}',
    ],
    ids=range(8),
)
def test_a_list_that_is_none_is_refused(page: bytes) -> None:
    with saying(lambda _, __: Said(200, page)) as url:
        done = run("symbolicate", "--store", url, stdin=LOG)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(f"debug-archive: {url}: ".encode())
    assert done.stderr.count(b"\n") == 1


def test_a_list_that_turns_in_a_circle_or_has_no_end_is_refused(
    truth: list[Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = json.dumps({"companions": truth, "next": "more"}).encode()
    with saying(lambda _, __: Said(200, page)) as url, pytest.raises(ArchiveError, match="another order"):
        Server(url).entries()
    monkeypatch.setattr("archive.store.client.server.MOST_OF_PAGE", 100)
    with (
        saying(lambda _, __: Said(200, page)) as url,
        pytest.raises(ArchiveError, match="more than 100 bytes"),
    ):
        Server(url).entries()
    empty = json.dumps({"companions": [], "next": "more"}).encode()
    with saying(lambda _, __: Said(200, empty)) as url:
        assert Server(url).entries() == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


WHOLE: Facts = {
    "archive_id": "0" * 32,
    "redacted_id": "",
    "digest": "1" * 32,
    "prefix": 1,
    "added": 2,
    "size": 3,
    "kept_size": 4,
    "serialization_id": "5",
    "root": "m",
    "top": "M",
    "qualified_top": "__torch__.M",
    "file": "m.ptdbg",
    "handles": [[0, 3], [5, 5]],
    "code": ["code/__torch__.py"],
}


@given(st.sampled_from(sorted(WHOLE)), JSON)
def test_whatever_stands_in_the_place_of_a_fact_is_refused_or_one(key: str, value: object) -> None:
    try:
        found = parsed_entry(WHOLE | {key: value})
    except ArchiveError:
        return
    assert entry_json(found, complete=True)[key] == value


def test_what_is_listed_is_what_the_store_knows(truth: list[Facts]) -> None:
    assert [entry_json(parsed_entry(one), complete=True) for one in truth] == truth
    assert parsed_entry(WHOLE).facts.handles == (range(4), range(5, 6))


def test_a_server_that_cannot_be_reached_is_told() -> None:
    with saying(lambda _, __: Said()) as url:
        pass
    done = run("symbolicate", "--store", url, stdin=LOG)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(f"debug-archive: {url}: cannot be reached: ".encode())


def test_a_server_that_comes_back_is_asked_again(truth: list[Facts]) -> None:
    honest, asked = server_of(truth, HONEST), []

    def answer(path: str, request: BaseHTTPRequestHandler) -> Said:
        asked.append(path)
        return Said(503) if len(asked) % 2 else honest(path, request)

    with saying(answer) as url:
        explainer = explainer_of(models_of(Server(url)))
        assert b"".join(explainer.explain([LOG])) == explained_by(FLEET, LOG)
    assert len(asked) == 2 * (1 + 2 * len(truth))  # the list, and of each companion the file and its lines


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host",
        "http://",
        "http://host?x=1",
        "http://host#x",
        "http://me:secret@host",
        "file:///etc",
        "http://[::1",
    ],
)
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ArchiveError) as refused:
        Connection(url)
    assert "secret" not in str(refused.value)


def test_digests_are_those_of_the_store(truth: list[Facts]) -> None:
    assert {one["digest"] for one in truth} == {digest_of(data).hex() for data in DATA.values()}


@contextmanager
def sending(*pieces: bytes, pause: float = 0) -> Iterator[str]:
    """A server that sends these bytes, with pauses between them, whatever it is asked; its address."""

    def run() -> None:
        with suppress(OSError):  # the client left
            client, _ = listening.accept()
            with client:
                client.recv(1 << 16)
                for piece in pieces:
                    client.sendall(piece)
                    Event().wait(pause)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "head", [HEAD + b"Content-Length: 900\r\n\r\n", HEAD + b"X: "], ids=["body", "header"]
)
def test_single_bytes_do_not_last_longer_than_an_answer_may(
    head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SECONDS", 0.3)
    with (  # the bytes that are sent would last for minutes
        sending(head, *([b"x"] * 2_000), pause=0.1) as url,
        pytest.raises(ArchiveError, match=r"no answer in 0\.3 s"),
    ):
        Connection(url).ask("/", most=1_000)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 404 No\r\n\r\n" + b"[" * 60_000, "404: No"),
        (b"HTTP/1.1 302 No\r\nLocation: http://" + b"a" * 70 + b".de/\r\n\r\n", "cannot be reached"),
        (b"HTTP/1.1 302 No\r\nLocation: file:///x?token=secret\r\n\r\n", "is not allowed"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nxxxxx", "read length"),
    ],
    ids=["deep", "no host", "file", "chunk"],
)
def test_what_no_server_says_ends_in_one_line(
    answer: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TRIES", 1)
    with sending(answer) as url, pytest.raises(ArchiveError) as refused:
        Connection(url).ask("/", most=1_000)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_companion_that_comes_too_late_for_an_error_comes_for_the_next_one(truth: list[Facts]) -> None:
    """An application does not wait for a server; and a slow server's model is none that cannot be read."""
    honest, going = server_of(truth, HONEST), Event()

    def answer(path: str, request: BaseHTTPRequestHandler) -> Said:
        if path != COMPANIONS:
            going.wait()
        return honest(path, request)

    with saying(answer) as url, archive.Explainer(url, seconds=0.1) as explainer:
        error = RuntimeError(FAILURES[0].unique)
        explainer.explain_error(error)
        assert not hasattr(error, "__notes__")
        assert (explainer.stats, explainer.unread) == (archive.ExplainerStats(late=1), {})
        going.set()
        explainer._seconds = 60
        explainer.explain_error(error)
        assert len(error.__notes__) == 1
