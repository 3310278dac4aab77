r"""Absolute paths in texts; what they give away tells ``places``.

A path begins where no name, URL or other path goes on: ``torch/nn`` and ``//`` are none. Below roots that are
known to be people's, any path counts and may have spaces; below those of machines, any; elsewhere it needs
three folders, two and a file with an ending, or one and a file that models are made of. ``\\`` counts as
``\``, as source text has it in literals, and ``%2F`` as ``/``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from archive.privacy.leaks.kinds import LeakKind
from archive.privacy.leaks.vocabulary import HOMES, TEMPORARY, Found, is_telling, matched, named, textual

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = rb"[^\x00-\x20\x7f\"'<>|:*?`\\,;(){}\[\]/]++"
SPACED = NAME + rb"(?: " + NAME + rb"){0,2}"
BEGINS = rb"(?<![\w.~@%/\\$)}\]*-]"
"""What a path does not go on behind; to be followed by its first byte."""
ROOT = rb"/(?:" + BEGINS + rb"/)|(?<=-[ILB]/)|(?<=\0V/)|(?<=file:///))"
"""A slash that begins a path. What stands before is looked at last: searches for a single byte are quick."""
ROOTED = re.compile(ROOT + rb"(?:" + HOMES + rb"|" + TEMPORARY + rb")/(?:" + SPACED + rb"/){0,64}+" + NAME)
POSIX = re.compile(ROOT + rb"(?:" + NAME + rb"/){1,64}+" + NAME)
IN_ROOT = re.compile(rb"/(?:" + HOMES + rb"|" + TEMPORARY + rb")/[^/]")
SLASHES = rb"(?:\\{1,4}|/)"
DRIVE = re.compile(
    rb"(?<![A-Za-z0-9])[A-Za-z]:" + SLASHES + rb"(?!/)(?:" + SPACED + SLASHES + rb"){0,64}+" + NAME
)
UNC = re.compile(
    rb"(?<![\\\w:])\\{2,4}(?:\?\\{1,2}UNC\\{1,2})?([A-Za-z0-9][\w.-]{1,62}\$?)\\{1,2}"
    rb"(?:" + SPACED + rb"\\{1,2}){1,64}+" + NAME
)
SHARE = re.compile(
    rb"(?<![^\x00-\x20\"'=])(?:\\\\([A-Za-z][\w.-]{2,62})\\|\\{4}([A-Za-z][\w.-]{2,62})\\\\)"
    rb"[A-Za-z][\w-]{2,62}\$?(?=[\x00-\x20\"']|$)"
)
"""A network path of two names, without anything around: formulas and patterns look alike."""
UP = re.compile(rb"(?<=\.\.)/(?:home|Users)/(?:" + NAME + rb"/){0,64}+" + NAME)
"""A home in a relative path: ``../../home/ann/net.py``."""
TILDE = re.compile(rb"~(?:" + BEGINS + rb"~))/(?!\.)" + NAME + rb"/(?:" + NAME + rb"/){0,64}+" + NAME)
"""A path in the home of whoever runs."""
QUOTED = (b"%2F", b"%2f", b"%5C", b"%5c")
IN_URL = re.compile(rb"(?:[A-Za-z]%3A)?(?:%2F|%5C)[\w.~%+-]{3,1000}", re.IGNORECASE)
"""A path as :func:`urllib.parse.quote` writes it without any character that is safe."""
TWO = re.compile(rb"\A(?:\w:)?//+")
"""What stands before the path in the URL of a file."""
DRIVE_BEFORE = re.compile(rb"(?<![A-Za-z0-9])[A-Z]:\Z")
TRIMMED = b".,!#&=+^"


def paths(data: bytes) -> Iterator[Found]:
    """The absolute paths in a text, and the names in them."""
    if b"/" in data:
        yield from _posix(data)
    for mark in (b":\\", b":/"):
        for one in matched(data, mark, 1, DRIVE):
            yield from named(one.start(), _single(textual(one[0])), LeakKind.DRIVE)
    yield from _network(data)
    for one in matched(data, b"../", -2, UP):
        yield from named(one.start(), one[0].rstrip(TRIMMED), LeakKind.PATH)
    for one in matched(data, b"~/", 0, TILDE):
        yield from named(one.start(), one[0].rstrip(TRIMMED), LeakKind.HOME)
    if any(quoted in data for quoted in QUOTED):
        for one in IN_URL.finditer(data):
            for found in _plain(TWO.sub(b"/", unquote_to_bytes(one[0]))):
                yield found._replace(at=one.start())


def _plain(path: bytes) -> Iterator[Found]:
    """The paths in a text that was in a URL."""
    yield from _posix(path)
    for one in DRIVE.finditer(path):
        yield from named(one.start(), _single(one[0]), LeakKind.DRIVE)


def _network(data: bytes) -> Iterator[Found]:
    for pattern in (UNC, SHARE):
        for one in matched(data, b"\\\\", 0, pattern):
            number = one.lastindex or 1
            yield from named(one.start(), b"\\" + _single(one[0]), LeakKind.UNC)
            yield Found(LeakKind.HOST, one.start(number), one[number])


def _posix(data: bytes) -> Iterator[Found]:
    rooted: set[int] = set()
    for one in ROOTED.finditer(data):
        rooted.add(one.start())
        path = textual(one[0]).rstrip(TRIMMED)
        if IN_ROOT.match(path) and not DRIVE_BEFORE.search(data, max(one.start() - 3, 0), one.start()):
            yield from named(one.start(), path, LeakKind.PATH)
    for one in POSIX.finditer(data):
        path = textual(one[0]).rstrip(TRIMMED)
        if one.start() not in rooted and is_telling(path):
            yield from named(one.start(), path, LeakKind.PATH)


def _single(path: bytes) -> bytes:
    """A path whose backslashes are doubled no longer."""
    return re.sub(rb"\\+", rb"\\", path)
