"""E-mail addresses, URLs and numbers of networks in texts."""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

from archive.base.patterns import pattern_of
from archive.privacy.leaks.vocabulary import Detection, LeakKind, matched, places_of

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from archive.privacy.leaks.words import FoundWords

USER = rb"[A-Za-z0-9\x80-\xff][\w.+\x80-\xff-]{0,63}"
NEW_TOPS = (
    rb"academy|agency|associates|bank|blog|build|business|capital|care|careers|center|clinic|codes|community|company"
    rb"|computer|consulting|coop|courses|dental|digital|education|energy|engineer|engineering|enterprises|estate|events"
    rb"|exchange|expert|finance|financial|foundation|fund|fyi|gallery|gmbh|graphics|guru|health|holdings|hospital"
    rb"|industries|ink|institute|insure|international|investments|jobs|kaufen|koeln|land|law|legal|link|live|llc|love"
    rb"|ltd|management|marketing|media|money|moscow|news|ninja|nyc|paris|partners|photo|photography|photos|pictures"
    rb"|press|pro|productions|pub|reisen|rocks|ruhr|sarl|school|science|scot|security|services|shop|social|software"
    rb"|solutions|solar|store|studio|study|support|swiss|taxi|technology|tokyo|tools|training|university|vc|ventures"
    rb"|video|wien|wiki|work|works|zuerich"
)
"""Newer top domains; none is an attribute that products of matrices have."""
TOP = (
    rb"(?i:"
    + NEW_TOPS
    + rb"|com|org|net|edu|gov|mil|int|info|biz|dev|app|cloud|tech|name|xyz|site|online|museum|email|systems"
    rb"|london|berlin|local|localdomain|internal|intranet|intra|corp|lan|home|example|test)"
    rb"|(?!(?:py|so|sh|md|cc|rs)(?!\w))(?:[a-z]{2}|[A-Z]{2})|[\xc3-\xf4][\x80-\xff]{3,40}"
)
"""Top domains. ``a@b.mT`` is a product; countries' domains that are file endings don't count."""
MAILBOX = pattern_of(rb"(?<![\w.+@\x80-\xff-])" + USER + rb"\Z")
DOMAIN = pattern_of(
    rb"(?:[A-Za-z0-9\x80-\xff-]{1,63}\.){1,5}(?:" + TOP + rb")(?![\w(\[@-]|[ ]?=|\.\w)"
    rb"|\[?(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
)
ANY_DOMAIN = pattern_of(rb"(?:[A-Za-z0-9\x80-\xff-]{1,63}\.){1,5}[A-Za-z]{2,24}(?=[>\"'\x00\n]|\Z)")
IN_WORDS = pattern_of(
    rb"([A-Za-z0-9][\w.+-]{0,63}) ?[\[({<] ?(?i:at) ?[\])}>] ?"
    rb"[A-Za-z0-9-]{1,63}(?:(?:\.| ?[\[({<] ?(?i:dot|punkt) ?[\])}>] ?)[A-Za-z0-9-]{1,63}){1,5}"
)
"""An address as people hide it from machines: ``ann (at) acme [dot] com``."""
NAME_BEFORE = pattern_of(rb"(?<![\w.+-])[A-Za-z0-9][\w.+-]{0,63} ?\Z")
AT_IN_WORDS = pattern_of(rb"[\[({<] ?(?i:at) ?[\])}>]")
AT = tuple(
    b"%c%s" % (opens, at) for opens in b"[({<" for at in (b"at)", b"at]", b"at}", b"at>", b"at ", b" at")
)
"""What all such addresses have, in small letters."""
OPENS = frozenset(b"<\"'\0\n:")
"""What stands before an address whose domain may have any top: the address is a string, or in brackets."""
REPOSITORY = pattern_of(rb":[\w.~-]++(?:/[\w.~-]++)++")
"""What follows a host where ``git`` is given a repository."""
AT_PROMPT = pattern_of(rb"([A-Za-z][\w-]{1,62}(?:\.[\w-]{1,62}){0,4}):(?=[~/])")
"""What follows ``@`` in a prompt, and where ``scp`` is given a file: ``ann@node17:~/net$``."""
SCHEME = pattern_of(rb"(?<![A-Za-z])[A-Za-z][A-Za-z0-9+.-]{1,20}\Z")
MOST_BEFORE = 65
"""Bytes before ``@`` or ``://`` in which an address may begin, and the one before."""
LOCATION = pattern_of(
    rb"[A-Za-z]:\\[^\x00-\x20\x7f\"'<>`{}|^\x80-\xff]+"
    rb"|(?=[\w\[/%]|:[^\x00-\x20/@]{1,200}@)[^\x00-\x20\x7f\"'<>`\\{}|^\x80-\xff]+"
)
"""What follows a scheme; a drive's path has backslashes, though no URL may."""
URL_TRIMMED = b".,;:!)]*#"
PUBLIC = pattern_of(
    rb"(?i:https?)://(?:[\w-]+\.){0,8}(?:pytorch\.org|python\.org|arxiv\.org|doi\.org|wikipedia\.org|w3\.org|apache\.org"
    rb"|numpy\.org|scipy\.org|nvidia\.com|openreview\.net)(?![\w@-]|\.\w)"
    rb"|https?://(?:www\.)?github\.com/(?:pytorch|python|numpy)(?![\w@-]|\.\w)"
)
"""URLs that PyTorch's own docstrings have, and that everyone knows."""
WEB = pattern_of(rb"(?<![\w./@-])www\.[A-Za-z0-9-]+\.[\w./-]*[\w/]")
PRIVATE = (
    (b"10.", rb"10(?:\.\d{1,3}){3}"),
    (b"192.168.", rb"192\.168(?:\.\d{1,3}){2}"),
    (b"172.", rb"172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}"),
    (b"169.254.", rb"169\.254(?:\.\d{1,3}){2}"),
)
NETWORKS = [
    (start, pattern_of(rb"(?<![\w.-])" + pattern + rb"(?::\d{1,5})?(?![\w.-])")) for start, pattern in PRIVATE
]
"""What addresses of private networks begin with, and their pattern. Others look like versions."""
SID = pattern_of(rb"S-1-5-21(?:-\d{1,10}){3,4}(?!\d)")
"""The number of an account of Windows."""
MOST_OF_BYTE = 255


def addresses(data: bytes, words: FoundWords) -> Iterator[Detection]:
    """The e-mail addresses, URLs, network addresses and account numbers in a text.

    Args:
        data: the text.
        words: of ``AT``, those that are in it.
    """
    end = 0
    has_marks = b"@" in data or b"://" in data or b"www." in data
    found = (_urls(data), _in_web(data), _mailboxes(data)) if has_marks else ()
    for address in merge(*found, key=lambda address: (address.at, -len(address.text))):
        if address.at >= end:
            yield address
            end = address.at + len(address.text)
    for start, pattern in NETWORKS:
        for match in matched(data, start, 0, pattern):
            if max(map(int, match[0].partition(b":")[0].split(b"."))) <= MOST_OF_BYTE:
                yield Detection(LeakKind.HOST, match.start(), match[0])
    has_at = any(word in AT for word in words.in_any_case)
    for at in AT_IN_WORDS.finditer(data) if has_at else ():
        low = max(at.start() - MOST_BEFORE, 0)
        before = NAME_BEFORE.search(data[low : at.start()])
        written = IN_WORDS.match(data, low + before.start()) if before else None
        if written:
            yield Detection(LeakKind.EMAIL, written.start(), written[0])
    if b"S-1-5-21-" in data:
        for match in SID.finditer(data):
            yield Detection(LeakKind.USER, match.start(), match[0])


def _urls(data: bytes) -> Iterator[Detection]:
    end = 0
    for at, start in _begun(data, b"://", SCHEME):
        rest = LOCATION.match(data, at + 3) if start >= end else None
        if rest is not None:
            end = rest.end()
            if not PUBLIC.match(data, start):
                yield Detection(LeakKind.URL, start, data[start:end].rstrip(URL_TRIMMED))


def _in_web(data: bytes) -> Iterator[Detection]:
    """Addresses without a scheme."""
    if b"www." in data:
        for match in WEB.finditer(data):
            if not PUBLIC.match(b"http://" + match[0]):
                yield Detection(LeakKind.URL, match.start(), match[0])


def _mailboxes(data: bytes) -> Iterator[Detection]:
    for at, begun in _begun(data, b"@", MAILBOX):
        start = at - _in_utf8(data[begun:at])
        domain, prompt = DOMAIN.match(data, at + 1), AT_PROMPT.match(data, at + 1)
        if domain is None and start + 1 < at and (start == 0 or data[start - 1] in OPENS):
            domain = ANY_DOMAIN.match(data, at + 1)
        if prompt and start + 1 < at:
            yield Detection(LeakKind.USER, start, data[start:at])
            yield Detection(LeakKind.HOST, at + 1, prompt[1])
        elif domain and start < at:
            repository = REPOSITORY.match(data, domain.end())
            end, kind = (repository.end(), LeakKind.URL) if repository else (domain.end(), LeakKind.EMAIL)
            if _in_utf8(data[start:end]) == end - start:
                yield Detection(kind, start, data[start:end])


def _in_utf8(name: bytes) -> int:
    """Bytes at the end of a name that are text; all, if it is text."""
    while not name.isascii():
        try:
            name.decode()
        except UnicodeDecodeError as problem:
            name = name[problem.end :]
        else:
            break
    return len(name)


def _begun(data: bytes, mark: bytes, before: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Where a mark stands, and where what belongs before it begins."""
    for at in places_of(data, mark):
        low = max(at - MOST_BEFORE, 0)
        begun = before.search(data[low:at])
        if begun:
            yield at, low + begun.start()
