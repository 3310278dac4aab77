"""What is left of a redaction names a way out that its choices have not taken, and that leads out."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import called
from tests.support.tampering import LINEAR, PLAIN, STACK, tampered

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.tampering import Change

OPTION = re.compile(r"`redact (--[a-z-]+(?: [a-z]+)?)` ")
LINE, COMMENT = b"return self.act(self.fc(x))", b"x = 1 # in /data/umcg/all_"
PATH = b"/opt/py/lib/python3.11/site-packages/torch/nn/modules/linear.py"
CHANGES: dict[str, dict[str, Change]] = {
    "path": {f"{LINEAR}.debug_pkl": lambda data: data.replace(PATH, b"/home/ann/".ljust(len(PATH), b"x"))},
    "comment": {f"{PLAIN}.debug_pkl": lambda data: data.replace(LINE, COMMENT.ljust(len(LINE), b"x"))},
    "extra": {"extra/readme": b"ask ann about it"},
    "path in extra": {"extra/notes": b"see /data/umcg/patients/all"},
}


@pytest.mark.parametrize("some", list(product([False, True], repeat=len(CHANGES)))[1:], ids=str)
def test_following_the_ways_out_leads_out(some: tuple[bool, ...], tmp_path: Path) -> None:
    changes = {
        name: change
        for one, is_there in zip(CHANGES.values(), some, strict=True)
        if is_there
        for name, change in one.items()
    }
    file = tmp_path / "model.ptl"
    file.write_bytes(tampered(STACK, changes))
    options = ["--paths basename"]
    while True:
        given = [word for option in options for word in option.split()]
        done = called("redact", file, "-o", tmp_path / "out.ptl", "-c", tmp_path / "c.ptdbg", *given)
        if done.exit_code == 0:
            break
        ways = dict.fromkeys(OPTION.findall(done.stderr))
        assert ways
        assert not set(ways).intersection(options)
        options += ways
    assert ("--source none" in options, "--no-extra" in options) == (
        some[1],
        (some[0] and some[2]) or some[3],
    )
