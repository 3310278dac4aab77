"""``verify`` of ETRecords: zips that are whole, programs and maps that can be read, handles of nodes."""

from __future__ import annotations

import json
import zipfile

import pytest

from archive.check.verify import verify
from tests.support.etrecords import NAMES, changed, record

HANDLES = "debug_handle_map"
EDGE = "edge_dialect_exported_program/forward"


def content(name: str) -> bytes:
    """A record of a fixture."""
    with zipfile.ZipFile(record("shop")) as opened:
        return opened.read(name)


@pytest.mark.parametrize("name", NAMES)
def test_records_of_executorch_are_well(name: str) -> None:
    assert verify(record(name)) == []


def test_a_handle_that_no_node_has_leads_to_nothing() -> None:
    handles = json.loads(content(HANDLES))
    handles["forward"]["3"] = 777
    (found,) = verify(changed("shop", **{HANDLES: json.dumps(handles).encode()}))
    assert (found.severity, found.record, found.place) == ("warning", HANDLES, "forward.3")
    assert found.message == f"expected handles of nodes of {EDGE}, found (777,)"


@pytest.mark.parametrize(
    ("name", "data", "severities", "told"),
    [
        (HANDLES, b'{"forward": 1}', ["error"], "expected an object, found a number"),
        (EDGE, b"{}", ["error", "warning"], "expected an object, found nothing"),
        (EDGE, content(EDGE).replace(b"line ", b"lime ", 1), ["note"], "not laid out as PyTorch writes"),
    ],
)
def test_what_cannot_be_read_is_told(name: str, data: bytes, severities: list[str], told: str) -> None:
    found = verify(changed("shop", **{name: data}))
    assert [one.severity for one in found] == severities
    assert any(one.record == name and told in one.message for one in found)


def test_a_damaged_record_is_told() -> None:
    data = bytearray(record("shop").read_bytes())
    data[data.index(b'"forward": {"0": 1') + 3] ^= 1
    (found,) = [one for one in verify(bytes(data)) if one.severity == "error"]
    assert "crc" in found.message
