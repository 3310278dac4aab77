r"""Absolute paths in texts, told apart by what they give away; the users and hosts that they name.

A path begins where no name, URL or other path goes on: ``torch/nn`` and ``//`` are none. Below roots that are
known to be a machine's, any path counts and may have spaces; elsewhere it needs three folders, or two and a
file with an ending. ``\\`` counts as ``\``, as source text has it in literals.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.verbs.leaks.kinds import LeakKind

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = rb"[^\x00-\x20\x7f\"'<>|:*?`\\,;(){}\[\]/]++"
SPACED = NAME + rb"(?: " + NAME + rb"){0,2}"
ROOT = rb"/(?:(?<![\w.~@%/\\$)}\]*-]/)|(?<=-[ILB]/))"
"""A slash that begins a path. What stands before is looked at last: searches for a single byte are quick."""
HOMES = rb"(?:home|Users|root|export/home|data/users|mnt/[a-z]/Users)"
TEMPORARY = rb"(?:tmp|var/tmp|var/folders|private/tmp|private/var|dev/shm|scratch)"
ROOTED = re.compile(ROOT + rb"(?:" + HOMES + rb"|" + TEMPORARY + rb")/(?:" + SPACED + rb"/){0,64}+" + NAME)
POSIX = re.compile(ROOT + rb"(?:" + NAME + rb"/){1,64}+" + NAME)
SLASHES = rb"(?:\\{1,4}|/)"
DRIVE = re.compile(
    rb"(?<![A-Za-z0-9])[A-Za-z]:" + SLASHES + rb"(?!/)(?:" + SPACED + SLASHES + rb"){0,64}+" + NAME
)
UNC = re.compile(
    rb"(?<![\\\w])\\{2,4}([A-Za-z0-9][\w.-]{1,62})\\{1,2}(?:" + SPACED + rb"\\{1,2}){1,64}+" + NAME
)
ENDING = re.compile(rb"\.[A-Za-z][A-Za-z0-9_+]{0,5}(?:\.\d+)*")
HOME_OF = re.compile(
    rb"(?:/(?:home|export/home|Users|data/users|mnt/[a-z]/Users)/"
    rb"|[A-Za-z]:[\\/]+(?:Users|Documents and Settings)[\\/]+)"
    rb"([^/\\]+)[/\\]"
)
ROOTS_HOME = b"/root/"
IN_TEMPORARY = re.compile(rb"/" + TEMPORARY + rb"/|[\\/](?:Temp|TEMP|tmp)[\\/]")
IN_PACKAGES = re.compile(rb"[\\/](?:site|dist)-packages(?:[\\/]|$)")
NOBODY = {
    *("Default", "Public", "Shared", "Administrator", "runneradmin", "runner", "ubuntu", "user", "jovyan"),
    *(
        "circleci",
        "ec2-user",
        "vsts",
        "jenkins",
        "root",
        "conda",
        "builder",
        "pytorch",
        "nobody",
        "linuxbrew",
    ),
}
"""Accounts that a machine or a service comes with."""
FEWEST_FOLDERS = 3
TRIMMED = b".,!#&=+^"


class Found(NamedTuple):
    """What a detector finds in a text.

    Attributes:
        kind: of the finding.
        at: its first byte in the text.
        text: what stands there.
    """

    kind: LeakKind
    at: int
    text: bytes


def paths(data: bytes) -> Iterator[Found]:
    """The absolute paths in a text, and the names in them."""
    if b"/" in data:
        yield from _posix(data)
    for mark in (b":\\", b":/"):
        for one in _matched(data, mark, 1, DRIVE):
            yield from _named(one.start(), _single(one[0]), LeakKind.DRIVE)
    for one in _matched(data, b"\\\\", 0, UNC):
        yield Found(LeakKind.UNC, one.start(), b"\\" + _single(one[0]))
        yield Found(LeakKind.HOST, one.start(1), one[1])


def _matched(data: bytes, mark: bytes, before: int, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """What matches around a mark: bytes are found much sooner than patterns.

    Args:
        data: a text.
        mark: what each match has.
        before: bytes of a match before the mark.
        pattern: what has to match.
    """
    at = data.find(mark)
    while at >= 0:
        one = pattern.match(data, at - before) if at >= before else None
        if one is not None:
            yield one
        at = data.find(mark, max(one.end() if one else 0, at + 1))


def _posix(data: bytes) -> Iterator[Found]:
    rooted: set[int] = set()
    for one in ROOTED.finditer(data):
        rooted.add(one.start())
        yield from _named(one.start(), one[0].rstrip(TRIMMED), LeakKind.PATH)
    for one in POSIX.finditer(data):
        path = one[0].rstrip(TRIMMED)
        if one.start() not in rooted and (_is_deep(path) or IN_PACKAGES.search(path)):
            yield from _named(one.start(), path, LeakKind.PATH)


def _is_deep(path: bytes) -> bool:
    folders, _, name = path.rpartition(b"/")
    depth = folders.count(b"/")
    return depth >= FEWEST_FOLDERS or (depth >= FEWEST_FOLDERS - 1 and bool(ENDING.search(name)))


def _named(at: int, path: bytes, other: LeakKind) -> Iterator[Found]:
    """A path by its kind, and the user whose home it is in."""
    home = HOME_OF.match(path)
    if home or path.startswith(ROOTS_HOME):
        yield Found(LeakKind.HOME, at, path)
    elif IN_TEMPORARY.search(path):
        yield Found(LeakKind.TEMPORARY, at, path)
    elif IN_PACKAGES.search(path):
        yield Found(LeakKind.PACKAGES, at, path)
    else:
        yield Found(other, at, path)
    if home and home[1].decode(errors="replace") not in NOBODY:
        yield Found(LeakKind.USER, at + home.start(1), home[1])


def _single(path: bytes) -> bytes:
    """A path whose backslashes are doubled no longer."""
    return re.sub(rb"\\+", rb"\\", path)
