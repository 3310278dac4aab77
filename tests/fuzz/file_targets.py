"""Targets for other files: zips, files of any kind, and logs."""

from __future__ import annotations

import io
from functools import cache, partial
from typing import TYPE_CHECKING

import archive
from archive.container.container import Container
from archive.failures.explainer import LogExplainer
from tests.fuzz.log_mutations import changed_log
from tests.fuzz.mutations import changed_bytes
from tests.fuzz.second_opinions import check_by_zipfile
from tests.fuzz.targets import Target, smallest
from tests.fuzz.zip_mutations import changed_zip
from tests.support.corpus import ARCHIVES, FIXTURES, ORACLES

if TYPE_CHECKING:
    from random import Random

    from archive.reader.archive import Archive

HEAD = 1 << 12
"""Bytes of files of other kinds."""
TOP, JOINED = "plain_unicode", "lowered_two"
"""The models whose failures the logs show: one with single handles, one with handles inside of others."""


def read_container(data: bytes) -> None:
    """A zip: what is rebuilt from its records holds the same records."""
    with Container.open(data, name="m") as opened:
        records = {name: bytes(record.view()) for name, record in opened.records.items()}
        out = io.BytesIO()
        opened.rebuild(out)
        again = Container.open(out.getvalue(), name="again")
        assert again.root == opened.root
        assert {name: bytes(record.view()) for name, record in again.records.items()} == records
        check_by_zipfile(records, opened.root, data)


def read_kind(data: bytes) -> None:
    """A file of any kind."""
    assert archive.recognise(data).what


@cache
def _model(name: str) -> Archive:
    return archive.open(ORACLES / f"{name}.ptl")


def read_log(name: str, data: bytes) -> None:
    """A log; where nothing is explained, it stays as it is."""
    explainer = LogExplainer.of(_model(name))
    printed = b"".join(explainer.explain([data]))
    assert len(explainer.notes) <= 101
    if explainer.explained == 0:
        assert printed == data


def _zips() -> list[bytes]:
    return smallest([path.read_bytes() for path in ARCHIVES], 8, 6000)


def _kinds() -> list[bytes]:
    paths = [path for path in (FIXTURES / "kinds").iterdir() if path.is_file()]
    return [path.read_bytes()[:HEAD] for path in paths] + [
        path.read_bytes() for path in paths if path.stat().st_size < HEAD
    ]


def _logs(name: str) -> list[bytes]:
    return smallest([path.read_bytes() for path in ORACLES.glob(f"{name}*.txt")], 4)


def _changed_kind(chance: Random, data: bytes) -> bytes:
    return (
        changed_zip(chance, data)
        if data[:4] == b"PK\3\4" and chance.randrange(2)
        else changed_bytes(chance, data)
    )


TARGETS = {
    "container": Target(read_container, _zips, changed_zip),
    "kinds": Target(read_kind, _kinds, _changed_kind),
    "log": Target(partial(read_log, TOP), partial(_logs, TOP), changed_log),
    "joined": Target(partial(read_log, JOINED), partial(_logs, JOINED), changed_log),
}
