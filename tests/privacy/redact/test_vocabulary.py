"""What `leaks` calls a home is one to `redact`: no relative path has the name of a person."""

from __future__ import annotations

import lzma
import re

import pytest

from archive import LeakKind, leaks
from archive.privacy.leaks.paths import paths
from archive.privacy.redact.rules import Rules
from tests.support.canaries import with_records
from tests.support.corpus import FIXTURES, ORACLES

FOLDERS = (
    *("/home/{}/", "/home2/{}/", "/Users/{}/", "/data/home/{}/", "/gpfs/users/{}/", "/lustre/users/{}/"),
    *("/nfs/home/{}/", "/mnt/c/Users/{}/", "/export/home/{}/", "/scratch/users/{}/", "/cluster/home/{}/"),
    *("/storage/site/homes/{}/", "/srv/users/{}/", "/afs/cern.ch/user/a/{}/", "/home/a/{}/"),
    *("C:\\Users\\{}\\", "D:\\Documents and Settings\\{}\\", "\\\\files01\\home\\{}\\"),
)
"""Where homes are; the name of a person stands in them."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_home_is_one_to_all(folder: str) -> None:
    home, slash = folder.format("annabel"), folder[-1]
    data = with_records(ORACLES / "plain_stack.ptl", {"note": f'"{home}p{slash}models.py"'.encode()})
    found = {(one.kind, one.text) for one in leaks(data).findings}
    assert {(LeakKind.HOME, f"{home}p{slash}models.py"), (LeakKind.USER, "annabel")} <= found
    others = [folder.format("bob") + "net/a.py", "/srv/nets/annabel/b.py", "/srv/nets/them/c.py"]
    given = [f"{home}p/models.py", f"{home}p/parts/block.py", *others]
    renamed = Rules.of(paths="relative").renamed([one.encode() for one in given])
    assert not [new for new in renamed.values() if re.search(rb"annabel|bob", new)]


@pytest.mark.parametrize(
    "code",
    [
        b"\0/\xff\xffH\x8b\x05/\x1f\x8d\xb5/H\x89/\xe8\xd8.so\0",
        b"\0/opt/\xff\xffH\x8bE\xf0/x\0",
        b"/tmp/\xc0H\x8d/a.so",
        b"/home/\x90\x90\xff/a.so",
    ],
)
def test_a_path_holds_text(code: bytes) -> None:
    assert list(paths(code)) == []


def test_a_path_of_any_script_is_one() -> None:
    assert [one.text.decode() for one in paths("/home/zoë/内部/m.py\0".encode())] == [
        "/home/zoë/内部/m.py",
        "zoë",
    ]


def test_compiled_packages_have_no_paths_in_their_code() -> None:
    for path in sorted((FIXTURES / "compiled").glob("*.xz")):
        found = leaks(lzma.decompress(path.read_bytes())).findings
        assert not [str(one) for one in found for place in one.places if ".text" in place.within]
