r"""Entries that give away users, hosts and keys by what they are called: ``{"api_key": …}``, ``USER=ann``.

Name and value are strings of their own in pickles and JSON, so bytes are read as they stand: a name, what a
pickle, JSON or a shell has between, and a value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.privacy.leaks.keys import CALLED, WORDS, is_key
from archive.privacy.leaks.kinds import LeakKind
from archive.privacy.leaks.vocabulary import HOSTS, NOBODY, USERS, Found, is_word_of_code, matched

if TYPE_CHECKING:
    from collections.abc import Iterator

QUOTED = rb"(\\{0,7}[\"'])?[ \t]{0,4}[:=][ \t]{0,4}\\{0,7}[\"'](?P<quoted>[^\"'\\\n]{2,500})\\{0,7}[\"']"
PICKLED = rb"(?:q.|r.{4}|\x94)?(?:X(?P<four>.{4})|[\x8cU](?P<one>.))"
"""An opcode that remembers the name, perhaps, and the one of the value with its length."""
VALUE = rb"(?:" + QUOTED + rb"|" + PICKLED + rb")"
CALLS = {LeakKind.USER: USERS, LeakKind.HOST: HOSTS}
"""What users and hosts are called."""
ENTRIES = {
    kind: re.compile(rb"(?:" + b"|".join(names) + rb")" + VALUE, re.DOTALL) for kind, names in CALLS.items()
}
KEYS = re.compile(rb"(?P<name>" + CALLED + rb")" + VALUE, re.DOTALL)
VARIABLES = {
    kind: re.compile(
        rb"(?:"
        + b"|".join(name for name in names if name.isupper())
        + rb")=[\"']?([A-Za-z0-9][\w.-]{1,62})(?![\w(\[])"
    )
    for kind, names in CALLS.items()
}
SECRET_VARIABLE = re.compile(rb"PASSW(?:OR)?D=[\"']?([^\s\"'\x00$(<]{6,200})")
PASSWORD = re.compile(rb"(?i:passw(?:or)?d|passphrase|pwd|secret(?:_?key)?)\Z")
PRIVATE = b"PRIVATE KEY"
BODY = re.compile(
    rb"PRIVATE KEY(?: BLOCK)?-----(?:(?:\s|\\{1,4}[nr])+(?:[\w-]+: [^\n\\]{0,200}|[A-Za-z0-9+/=]{16,4096}))+"
)
"""The lines behind the heading of a private key, of which some are letters of base64."""
LINE = re.compile(rb"(?:\s|\\[nr])([A-Za-z0-9+/=]{16,4096})(?![A-Za-z0-9+/=:-])")
NAME = re.compile(
    rb"[A-Za-z0-9][\w.-]{1,62}|[A-Z\x80-\xff][\w.\x80-\xff-]+(?: [A-Z\x80-\xff][\w.\x80-\xff-]+){1,3}"
)
SECRET = re.compile(rb"[^\s<>{}\[\]()]{6,200}")
KEY = re.compile(rb"(?:(?:Bearer|Basic|Token) )?([A-Za-z0-9+/_=.~-]{20,})")
NO_NAMES = {
    *("localhost", "None", "none", "null", "str", "string", "unknown", "username", "hostname", "name")
}
NO_SECRETS = {*("password", "passwd", "string", "secret", "required", "optional", "hidden", "private")}
WIDEST = 1 << 16


def entries(data: bytes, strings: bytes) -> Iterator[Found]:
    """The entries in some bytes that give something away.

    Args:
        data: the bytes, as they stand in a record.
        strings: the lines that are in them, each once: what these have not need not be looked for.
    """
    for kind, names in CALLS.items():
        for at, value in _named(data, [one for one in names if one in strings], ENTRIES[kind]):
            if _is_name(value):
                yield Found(kind, at, value)
    yield from _keys(data, strings)
    if PRIVATE in data:
        for key in BODY.finditer(data):
            for line in LINE.finditer(data, *key.span()):
                yield Found(LeakKind.KEY, line.start(1), line[1])


def variables(strings: bytes) -> Iterator[Found]:
    """The variables of an environment in lines of text that give something away: ``USER=ann``."""
    for kind, names in CALLS.items():
        for name in filter(bytes.isupper, names):
            for one in matched(strings, name, 0, VARIABLES[kind]):
                if _is_whole(strings, one.start()) and _is_name(one[1]):
                    yield Found(kind, one.start(1), one[1])
    for one in matched(strings, b"PASSW", 0, SECRET_VARIABLE):
        yield Found(LeakKind.KEY, one.start(1), one[1])


def _is_whole(data: bytes, at: int) -> bool:
    """Whether a name begins at a place, and none goes on."""
    before = data[at - 1 : at] if at else b""
    return not before.isalnum() and before != b"_"


def _is_name(value: bytes) -> bool:
    known = value.decode(errors="replace") in NOBODY | NO_NAMES or is_word_of_code(value)
    return NAME.fullmatch(value) is not None and not known and not value.isdigit()


def _named(data: bytes, names: list[bytes], pattern: re.Pattern[bytes]) -> Iterator[tuple[int, bytes]]:
    """The values behind names, and where they stand."""
    for name in names:
        for one in matched(data, name, 0, pattern):
            if _is_whole(data, one.start()):
                yield _value(data, one)


def _keys(data: bytes, strings: bytes) -> Iterator[Found]:
    """The values of entries that have a key's name, and what a key or a password looks like."""
    lowered = strings.lower()
    words = [word for word in WORDS if word in lowered]
    if not words:
        return
    lowered, told = data.lower(), set()
    for word in words:
        at = lowered.find(word)
        while at >= 0:
            one = KEYS.match(data, at)
            if one is not None:
                start, value = _value(data, one)
                if start not in told and (_is_key(value) or _is_password(one["name"], value)):
                    told.add(start)
                    yield Found(LeakKind.KEY, start, value)
            at = lowered.find(word, at + 1)


def _is_key(value: bytes) -> bool:
    key = KEY.fullmatch(value)
    return key is not None and is_key(key[1])


def _is_password(name: bytes, value: bytes) -> bool:
    return (
        PASSWORD.search(name) is not None
        and SECRET.fullmatch(value) is not None
        and value.lower().decode(errors="replace") not in NO_SECRETS
    )


def _value(data: bytes, one: re.Match[bytes]) -> tuple[int, bytes]:
    """The value that was found behind a name, and its first byte."""
    if one["quoted"] is not None:
        return one.start("quoted"), one["quoted"]
    length = int.from_bytes(one["four"] or one["one"], "little")
    return one.end(), data[one.end() : one.end() + min(length, WIDEST)]
