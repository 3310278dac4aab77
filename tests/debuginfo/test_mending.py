"""Call-stack maps that PyTorch wrote and refuses: told, and mended by what rewrites them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive.check.verify import verify
from archive.debuginfo.mending import mended as mended_map
from archive.reader.loading import refusals
from tests.support.commands import well
from tests.support.corpus import CALLSTACKS, REFUSED
from tests.support.tampering import STACK, edited, handles, ranges, tampered

if TYPE_CHECKING:
    from pathlib import Path

UNTAGGED = [2, 9, 16]
"""The rows of the map with the tag -1."""
MESSAGE = "Source range tag must exist in deserialized source range map."
SAID = f'PyTorch 2.13\'s lite interpreter refuses it: "{MESSAGE}"'


def map_of(data: bytes | Path) -> tuple[dict[int, int], int]:
    """The tag of each handle, and that of the null range."""
    with archive.open(data) as opened:
        table, rows = opened.handle_table, opened.range_table
        assert table is not None
        null = rows.tag[np.flatnonzero(rows.sources.is_null[rows.source])[0]]
        return dict(zip(table.handle.tolist(), table.tag.tolist(), strict=True)), int(null)


def mended(folder: Path) -> dict[str, bytes]:
    """What each command that mends it makes of the archive."""
    archive.shrink(REFUSED, folder / "compact.ptl")
    made = {to: archive.migrate(REFUSED, to=to).data for to in ("latest", "2.0", "1.11", "string-table")}
    return {"compact": (folder / "compact.ptl").read_bytes(), **made}


def test_operations_without_a_tag_are_errors_with_pytorchs_message_and_the_way_out() -> None:
    found = [str(one) for one in verify(REFUSED) if one.severity == "error"]
    rows = [f"row {row}, field tag: expected the tag of a source range, found -1" for row in UNTAGGED]
    assert found[:-1] == [f"{CALLSTACKS}, {row}" for row in rows]
    assert found[-1] == f"{CALLSTACKS}: {SAID}; `debug-archive migrate --to latest` mends it"


def test_they_are_led_to_the_null_range_and_everything_else_stays(tmp_path: Path) -> None:
    before, null = map_of(REFUSED)
    for how, data in mended(tmp_path).items():
        after, _ = map_of(data)
        assert after == {handle: null if tag == -1 else tag for handle, tag in before.items()}, how
        with archive.open(data) as opened:
            assert refusals(opened) == [], how
        assert [one for one in verify(data) if one.severity != "note"] == [], how


def test_it_is_told(tmp_path: Path) -> None:
    told = well("shrink", REFUSED, "-o", tmp_path / "small.ptl")
    tags = "mended: 3 tags of no source range in the call-stack map"
    assert f"\n{tags}, for which PyTorch's lite interpreter refuses the original\n" in told
    assert told.endswith("as far as its code and tensors go, and shows the same model source in errors\n")
    told = well("migrate", REFUSED, "-o", tmp_path / "new.ptl", "--to", "latest")
    assert "\nmended\n  tags of no source range in the call-stack map: 3\n" in told


def test_the_way_back_gives_the_file_as_it_was(tmp_path: Path) -> None:
    there = archive.migrate(REFUSED, to="latest").data
    assert archive.migrate(there, to="original").data == REFUSED.read_bytes()
    archive.split(REFUSED, tmp_path / "out.ptl", tmp_path / "out.ptdbg")
    archive.join(tmp_path / "out.ptl", tmp_path / "out.ptdbg", tmp_path / "joined.ptl")
    assert (tmp_path / "joined.ptl").read_bytes() == REFUSED.read_bytes()
    archive.shrink(REFUSED, tmp_path / "in.ptl", level="embed")
    archive.restore(tmp_path / "in.ptl", tmp_path / "restored.ptl")
    assert (tmp_path / "restored.ptl").read_bytes() == REFUSED.read_bytes()


def test_an_archive_without_a_map_has_nothing_to_mend() -> None:
    with archive.open(STACK) as opened:
        assert mended_map(None, opened.range_table) == (None, 0)
        assert mended_map(opened.handle_table, opened.range_table) == (opened.handle_table, 0)


def test_a_tag_of_no_range_in_a_call_stack_becomes_none() -> None:
    data = tampered(STACK, handles(STACK, lambda table: edited(table, call_tag={0: 900})))
    with archive.open(archive.migrate(data, to="latest").data) as opened:
        assert opened.handle_table is not None
        assert opened.handle_table.call_tag.min() == -1
        assert refusals(opened) == []


def test_what_has_no_null_range_to_lead_to_is_not_said_to_be_mended(tmp_path: Path) -> None:
    data = REFUSED.read_bytes()
    with archive.open(data) as opened:
        table = opened.range_table
        (name, _), nulls = table.names, np.flatnonzero(table.sources.is_null[table.source])
    data = tampered(data, ranges(data, name, end=dict.fromkeys(nulls.tolist(), 1)))
    errors = [str(one) for one in verify(data) if "refuses it" in one.message]
    assert errors == [f'{CALLSTACKS}: PyTorch 2.13\'s lite interpreter refuses it: "{MESSAGE}"']
    (tmp_path / "in.ptl").write_bytes(data)
    told = well("shrink", tmp_path / "in.ptl", "-o", tmp_path / "out.ptl")
    assert re.search(rf"{re.escape(SAID)}\nexcept for the refusals above, PyTorch loads it where", told)


@pytest.mark.torch
def test_pytorch_refuses_what_it_wrote_and_loads_and_explains_what_is_mended(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.torch_oracles import loaded, loads  # noqa: PLC0415
    from tools.make_refused import naming  # noqa: PLC0415

    fresh = tmp_path / "naming.ptl"
    torch.jit.script(naming())._save_for_lite_interpreter(str(fresh), _save_mobile_debug_info=True)
    for written in (REFUSED, fresh):
        (error,) = loads(written.read_bytes())
        assert MESSAGE in error
    line = "return x * self.scale, first\n               ~~~~~~~~~~~~~~ <--- HERE"
    for how, data in mended(tmp_path).items():
        assert loads(data) == [], how
        path = tmp_path / "mended.ptl"
        path.write_bytes(data)
        assert loaded(path)(torch.ones(3), "a:b c")[1] == "a"  # type: ignore[index]
        with pytest.raises(RuntimeError) as raised:
            loaded(path)(torch.ones(2), "a:b c")
        assert line in str(raised.value), how
