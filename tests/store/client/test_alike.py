"""A server's store explains what its folder explains, and what is added through it what is added at once."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING

import pytest

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.base.errors import ArchiveError
from archive.reader.line_digests import BYTES
from archive.store.client.server import Server
from archive.store.entries import COMPANIONS, entry_json
from archive.store.store import Store
from tests.failures.models.test_three_models import FLEET
from tests.failures.test_line_digests import REPORTS, twins
from tests.support.corpus import ORACLES
from tests.support.servers import TOKEN, Running, Said, saying

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from archive.failures.explainer import LogExplainer
    from archive.failures.models.models import Models
    from archive.store.entries import StoreEntry

OWN, TRACED = REPORTS["plain_unicode.jit"], REPORTS["traced_stack.jit"]
LOGS = [
    OWN.stripped,
    TRACED.stripped,
    (ORACLES / "plain_stack.stripped.txt").read_bytes(),
    (FLEET / "unique.log").read_bytes()[:2000],
]
SETS: dict[str, list[Path | bytes]] = {
    "archives": [OWN.path, *twins(OWN)[:1], *sorted(FLEET.glob("*.ptdbg"))],
    "twins": [*twins(OWN)[:2]],
}
"""Stores of all that may be added, and what most failures need to be told apart."""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG_ARCHIVE_CACHE", str(tmp_path / "cache"))


def explained(source: Path | str) -> list[tuple[bytes, int, int, list[str], str]]:
    """What a store says of each log."""
    said = []
    models: Models = models_in([source])
    for log in LOGS:
        explainer: LogExplainer = explainer_of(models)
        text = b"".join(explainer.explain([log]))
        said.append((text, explainer.explained, explainer.ambiguous, explainer.notes, explainer.caveat))
    models.close()
    return said


def kept(folder: Path, files: list[Path | bytes]) -> list[StoreEntry]:
    with Store.open(folder, create=True) as store:
        return [store.add(one, name=f"{number}.pt").entry for number, one in enumerate(files)]


@pytest.mark.parametrize("name", SETS)
def test_a_servers_store_says_what_its_folder_says(name: str, tmp_path: Path) -> None:
    entries = kept(tmp_path / "here", SETS[name])
    here = explained(tmp_path / "here")
    assert any(found for _, found, *_ in here) == (name != "twins")
    with Running(tmp_path / "here", "--workers", 1) as server:
        for _ in range(2):  # from the server, and from the cache
            assert explained(server.url) == here
        place = f"{COMPANIONS}/{entries[0].archive_id}/lines"
        lines = json.loads(server.ask("GET", place).data)["lines"]
        assert server.ask("GET", f"{place}?digest={'0' * 32}").status == 404
    assert lines.keys() == entries[0].facts.code
    assert all(len(b64decode(text)) % BYTES == 0 for text in lines.values())


def test_what_is_added_through_a_server_is_told_apart_as_what_is_added_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUG_ARCHIVE_TOKEN", TOKEN)
    (tmp_path / "token").write_text(TOKEN)
    files = [*SETS["archives"], TRACED.path]
    kept(tmp_path / "here", files)
    kept(tmp_path / "through", [])
    with Running(tmp_path / "through", "--workers", 1, "--token-file", tmp_path / "token") as server:
        for outcome in ("added", "same"):
            for number, one in enumerate(files):
                assert Server(server.url).add(one, name=f"{number}.pt").outcome == outcome
        assert explained(server.url) == explained(tmp_path / "here")


@pytest.mark.parametrize(
    "lie",
    [
        b"[]",
        b"{}",
        b'{"lines": 1}',
        b'{"lines": {"a": 1}}',
        b'{"lines": {"a": "*"}}',
        b'{"lines": {"a": "AA=="}}',
    ],
)
def test_lines_that_a_server_makes_up_are_refused(lie: bytes, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", create=True) as store:
        entry = store.add(OWN.path).entry
        listed, data = entry_json(entry, complete=True), store.given_of(entry).data

    def answer(path: str, _: BaseHTTPRequestHandler) -> Said:
        if path == COMPANIONS:
            return Said(200, json.dumps({"companions": [listed], "next": None}).encode())
        return Said(200, lie if path.endswith("/lines") else data)

    with saying(answer) as url:
        (known,) = Server(url).entries()
        with pytest.raises(ArchiveError, match=r"lines|digests"):
            Server(url).opened_of(known)
