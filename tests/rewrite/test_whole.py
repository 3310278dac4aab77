"""No verb hands on a file one of whose records is damaged, also where it copies the file as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from tests.support.commands import run
from tests.support.tampering import STACK, without

if TYPE_CHECKING:
    from pathlib import Path

BARE = without(STACK, lambda name: "debug" in name or name == "callstack_debug_map.pkl")
VERBS = {
    "split": ("split", "{}", "-o", "out.ptl", "-c", "out.ptdbg"),
    "shrink": ("shrink", "{}", "-o", "out.ptl"),
    "restore": ("restore", "models", "-o", "out"),
    "join": ("join", "models", "-o", "out", "-c", "none"),
    "migrate": ("migrate", "{}", "-o", "out.ptl", "--to", "latest"),
    "migrate --to original": ("migrate", "{}", "-o", "out.ptl", "--to", "original"),
    "redact": ("redact", "{}", "-o", "out.ptl", "-c", "out.ptdbg", "--no-extra"),
}


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_a_damaged_file_is_not_handed_on(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("models", "none"):
        (tmp_path / folder).mkdir()
    run("split", STACK, "-o", "models/other.ptl", "-c", "none/other.ptl.ptdbg")
    path = tmp_path / "models" / "m.ptl"
    path.write_bytes(BARE)
    words = tuple(word.format("models/m.ptl") for word in words)
    assert run(*words, "--force").returncode < 2
    with archive.open(BARE) as opened:
        places = {name: record.place.data for name, record in opened.container.records.items() if record.size}
    assert len(places) > 10
    for name, place in places.items():
        damaged = bytearray(BARE)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        done = run(*words, "--force")
        assert done.returncode == 2, name
        assert name.encode() in done.stdout + done.stderr
