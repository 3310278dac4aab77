"""Machines in texts, known by what their names look like or by what stands around them.

- A *whole name* has three labels or more and ends in a top domain. Attributes of Python have dots, too: so a
  label has a hyphen, which no attribute has, or the top domain is none that code uses, or a digit stands in a
  label and the top domain is usual.
- A *name with a port* has a hyphen and a digit, and a port of five digits; any other is one only after a word
  like ``host`` or ``connecting to``.
- ``ann@gpu07`` names both after ``ssh`` and the like, in a prompt in brackets, and as a whole string.
- TensorBoard calls a run ``Nov12_14-03-22_HOST`` and its file ``events.out.tfevents.TIME.HOST.PID.N``;
  Windows and Amazon call machines ``DESKTOP-4F2K9QZ`` and ``ip-10-0-3-17``; a network card has six pairs of
  hexadecimal digits.
- ``//server/share/net.py`` is a share, where it begins a word and leads to a file that models are made of.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from archive.base.patterns import in_any_case, pattern_of
from archive.privacy.leaks.addresses import PUBLIC
from archive.privacy.leaks.people import is_somebody
from archive.privacy.leaks.vocabulary import (
    NOBODY,
    PARTS,
    SHORTEST_NAME,
    Detection,
    LeakKind,
    matched,
    places_of,
)
from archive.privacy.leaks.words import present

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.privacy.leaks.words import FoundWords

BEGINS = rb"(?<![\w.@\\:$%~-])(?<!//)"
"""What no name comes right after."""
WHOLE = pattern_of(BEGINS + rb"[A-Za-z0-9][\w-]*+(?:\.[\w-]++){1,9}+(?![\w(\[@{]| ?=[^=])(?:\.(?!\w)|(?!\.))")
CUT = bytes(code if bytes([code]).isalnum() or code in b"_.-" else 0 for code in range(256))
"""Translates what no name has to NUL."""
MOST_OF_NAME = 640
"""Bytes before the top domain: ten labels with a dot each."""
PORT = pattern_of(rb":\d{2,5}(?![\w.])")
FEWEST_LABELS, MOST_OF_LABEL = 3, 63
NO_CODE = frozenset(b"com edu gov mil corp lan intra intranet localdomain".split())
"""Top domains that no attribute is called."""
USUAL = frozenset(b"org net internal local cloud io ai".split())
COUNTRIES = frozenset(
    b"de ch uk fr nl be es se dk fi cz eu ca au jp cn kr br ru sg hk tw il ie nz za".split()
)
"""Countries whose top domain is neither a word nor the ending of a file."""
TOPS = NO_CODE | USUAL | COUNTRIES
TOP = pattern_of(rb"\.(?=(?:" + in_any_case(TOPS) + rb")(?![\w(\[@{-]| ?=[^=]|\.\w))")
"""The dot before the last label of such a name: single bytes are found sooner than how names begin."""
LOCAL = b"local"
WITH_PORT = pattern_of(BEGINS + rb"[A-Za-z][\w-]{2,62}:\d{4,5}(?![\w.:/-])")
ENDS_IN_PORT = pattern_of(rb":(?=\d{4,5}(?![\w.:/-]))")
BEFORE_PORT = pattern_of(BEGINS + rb"[A-Za-z][\w-]{2,62}\Z")
SURE_PORT = 10_000
LAST_PORT = (1 << 16) - 1
INTRODUCES = pattern_of(
    rb"(?i:host|hostname|node|addr|address|server|master|worker|endpoint|broker|scheduler"
    rb"|connect(?:ed|ing)?(?: to)?|listen(?:s|ing)? (?:at|on)|rank \d{1,5} (?:at|on))[\"']?[ =:]{1,3}[\"']?\Z"
)
"""What stands before a name with a port."""
MOST_INTRODUCED = 40
LABEL = rb"[A-Za-z0-9-]{1,62}"
AT_HOST = pattern_of(rb"([A-Za-z][\w.-]{1,31})@([A-Za-z]" + LABEL + rb"(?:\." + LABEL + rb"){0,4})(?![\w@(])")
"""A user at a machine; versions of symbols, ``free@GLIBC_2.2.5``, have a low line."""
MOST_OF_USER = 32
LOGS_IN = pattern_of(rb"(?:^|[\s\"'`;&|(\0])(?:ssh|scp|sftp|rsync|mosh|sshfs|ssh-copy-id)[ ][^\n\0]{0,120}\Z")
MOST_OF_COMMAND = 140
PROMPT = pattern_of(rb" [^\]\n\0]{1,80}\][$#%]")
PUBLIC_KEY = pattern_of(rb"ssh-[a-z0-9-]{2,20} [A-Za-z0-9+/=]{16,2048} ")
MOST_OF_KEY = 2200
ENDS = frozenset(b"\0\n\"'")
MONTHS = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
HOST = rb"([A-Za-z0-9][\w-]*(?:\.[\w-]*[A-Za-z][\w-]*){0,6})"
RUN = pattern_of(MONTHS + rb"\d\d_\d\d-\d\d-\d\d_" + HOST)
OF_EVENTS = b"tfevents."
EVENTS = pattern_of(rb"tfevents\.\d{9,11}\." + HOST)
GIVEN = {
    b"DESKTOP-": pattern_of(rb"DESKTOP-[A-Z0-9]{7}(?![\w-])"),
    b"LAPTOP-": pattern_of(rb"LAPTOP-[A-Z0-9]{8}(?![\w-])"),
    b"WIN-": pattern_of(rb"WIN-[A-Z0-9]{11}(?![\w-])"),
    b"ip-": pattern_of(rb"ip(?:-\d{1,3}){4}(?![\w.-])"),
}
"""What systems call a machine that nobody has named."""
SYSTEMS = (b"Linux ", b"Darwin ", b"FreeBSD ")
SYSTEM = pattern_of(
    rb"(?:Linux|Darwin|FreeBSD) "
    + HOST
    + rb" \d{1,3}\.\d{1,3}(?:\.\d{1,3})?[\w.+-]{0,60}(?: #\d| Darwin| FreeBSD)"
)
"""What ``uname -a`` prints."""
NAMES_OF_HOSTS = (b"hostname", b"machine")
CALLED = pattern_of(
    rb"(?i:hostname|machine(?:[ _]name)?)[\"']?[ ]?[:=][ ]?[\"']?([A-Za-z][\w-]{2,62})(?![\w(.\[])"
)
NUMBERED = pattern_of(rb"(?<![\w:.-])[0-9A-Fa-f]{1,4}(?:::?[0-9A-Fa-f]{1,4}){3,7}(?![\w:.-])")
"""The number of a network card, or an address of version 6 of the internet's protocol, perhaps."""
BETWEEN_NUMBERS = pattern_of(rb":(?=[0-9A-Fa-f]{1,4}:)")
"""The first colon in it, or the second, if these are two."""
FIRST_NUMBER = pattern_of(rb"(?<![\w:.-])[0-9A-Fa-f]{1,4}:?\Z")
CARD = pattern_of(rb"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}")
HEXADECIMAL = pattern_of(rb"[A-Fa-f]")
SHARE = pattern_of(rb"//([A-Za-z][\w-]{2,62}(?:\.[\w-]{1,62}){0,4})((?:/[\w.$ -]{1,255}){2,32})")
BEFORE_SHARE = frozenset(b"\0\n\"'= ")


MARKS_OF_HOSTS = (OF_EVENTS, *GIVEN, *SYSTEMS)
"""Words that machines' names stand beside, or begin with."""


def hosts(data: bytes, words: FoundWords) -> Iterator[Detection]:
    """The machines in a text, which has some words of ``TELLING``, and the users beside them."""
    yield from _whole_names(data)
    for match in _around(data, ENDS_IN_PORT, BEFORE_PORT, MOST_OF_LABEL, WITH_PORT):
        if _has_port(match[0]) or INTRODUCES.search(
            data[max(match.start() - MOST_INTRODUCED, 0) : match.start()]
        ):
            yield Detection(LeakKind.HOST, match.start(), match[0])
    yield from _with_users(data)
    events = (matched(data, mark, 0, EVENTS) for mark in present([OF_EVENTS], words))
    for match in chain(matched(data, b"-", 8, RUN), *events):
        if is_somebody(match[1]):
            yield Detection(LeakKind.HOST, match.start(1), match[1])
    for mark in present(GIVEN, words):
        for match in matched(data, mark, 0, GIVEN[mark]):
            yield Detection(LeakKind.HOST, match.start(), match[0])
    for mark in present(SYSTEMS, words):
        for match in matched(data, mark, 0, SYSTEM):
            yield Detection(LeakKind.HOST, match.start(1), match[1])
    if any(word in NAMES_OF_HOSTS for word in words.in_any_case):
        for match in CALLED.finditer(data):
            if re.search(rb"[\d-]", match[1]) and is_somebody(match[1]):
                yield Detection(LeakKind.HOST, match.start(1), match[1])
    for match in _around(data, BETWEEN_NUMBERS, FIRST_NUMBER, len("ffff:"), NUMBERED):
        if CARD.fullmatch(match[0]) or _is_sixth(match[0]):
            yield Detection(LeakKind.HOST, match.start(), match[0])
    for match in matched(data, b"//", 0, SHARE):
        if PARTS.search(match[2]) and (match.start() == 0 or data[match.start() - 1] in BEFORE_SHARE):
            yield Detection(LeakKind.UNC, match.start(), match[0])
            yield Detection(LeakKind.HOST, match.start(1), match[1])


def _around(
    data: bytes, mark: re.Pattern[bytes], before: re.Pattern[bytes], most: int, whole: re.Pattern[bytes]
) -> Iterator[re.Match[bytes]]:
    """What matches around marks: a mark is found sooner than what begins anywhere.

    Args:
        before: matches what stands from the first byte up to the mark, ``most`` bytes.
    """
    end = 0
    for found in mark.finditer(data):
        begun = before.search(data, max(found.start() - most, end), found.start())
        match = whole.match(data, begun.start()) if begun else None
        if match is not None:
            end = match.end()
            yield match


def _whole_names(data: bytes) -> Iterator[Detection]:
    end = 0
    for top in TOP.finditer(data):
        if top.start() < end:
            continue
        low = max(top.start() - MOST_OF_NAME, end)
        begin = low + data[low : top.start()].translate(CUT).rfind(b"\0") + 1
        match = WHOLE.match(data, begin) if begin > low or not low else None
        if match is None:
            continue
        end, name = match.end(), match[0].rstrip(b".")
        if is_whole_name(name) and not PUBLIC.match(b"http://" + name):
            port = PORT.match(data, match.start() + len(name))
            yield Detection(LeakKind.HOST, match.start(), name + (port[0] if port else b""))


def is_whole_name(name: bytes) -> bool:
    """Whether labels with dots are the name of a machine, not an attribute or a version."""
    top = name.rpartition(b".")[2].lower()
    if top not in TOPS or b"_" in name:
        return False
    labels = name.split(b".")[:-1]
    if max(map(len, labels)) > MOST_OF_LABEL:
        return False
    has_hyphen = any(b"-" in label for label in labels)
    if any(label.isdigit() for label in labels) or labels[0].lower() == b"www":
        return False
    if labels[-1] == b"cluster" and top == LOCAL:
        return len(labels) > 1
    if len(labels) + 1 < FEWEST_LABELS:
        return top == LOCAL and has_hyphen
    return (
        has_hyphen
        or top in NO_CODE
        or (top not in (b"net", LOCAL) and re.search(rb"\d", b".".join(labels)) is not None)
    )


def _is_sixth(text: bytes) -> bool:
    """Whether hexadecimal digits with colons are an address, not namespaces of C++."""
    import ipaddress  # noqa: PLC0415 (few texts have some)

    try:
        ipaddress.IPv6Address(text.decode())
    except ValueError:
        return False
    return HEXADECIMAL.search(text) is not None and re.search(rb"\d", text) is not None


def _has_port(name: bytes) -> bool:
    """Whether a name with a number is that of a machine and a port by its looks."""
    host, _, port = name.partition(b":")
    looks = b"-" in host and re.search(rb"\d", host) is not None
    return looks and SURE_PORT <= int(port) <= LAST_PORT


def _ends_key(data: bytes, at: int) -> bool:
    """Whether a public key ends before a place, where its owner is named."""
    begin = data.rfind(b"ssh-", max(at - MOST_OF_KEY, 0), at)
    return begin >= 0 and PUBLIC_KEY.fullmatch(data, begin, at) is not None


def _with_users(data: bytes) -> Iterator[Detection]:
    """``ann@gpu07``, where that isn't a product of matrices."""
    for at in places_of(data, b"@"):
        low = at
        while low > max(at - MOST_OF_USER, 0) and (data[low - 1 : low].isalnum() or data[low - 1] in b"_.-"):
            low -= 1
        match = AT_HOST.match(data, low)
        if match is None or match.start(2) != at + 1:
            continue
        before, after = data[low - 1 : low], data[match.end() : match.end() + 1]
        is_string = (not before or before[0] in ENDS) and (not after or after[0] in ENDS)
        has_digit = re.search(rb"[\d-]", match[2]) is not None and len(match[1]) >= SHORTEST_NAME
        if (
            (is_string and has_digit)
            or (before == b"[" and PROMPT.match(data, match.end()))
            or LOGS_IN.search(data[max(low - MOST_OF_COMMAND, 0) : low])
            or (has_digit and before == b" " and _ends_key(data, low))
        ):
            if match[1] not in NOBODY:
                yield Detection(LeakKind.USER, match.start(1), match[1])
            if is_somebody(match[2]):
                yield Detection(LeakKind.HOST, match.start(2), match[2])
