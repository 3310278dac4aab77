r"""Who an entry names: what entries are called that name people and hosts, and what their values look like.

This is the one vocabulary of entries, however they are stored: in pickles, JSON, source text and settings.

- A name is the same in either case, with any separators, in the plural, and after dots: ``Author``,
  ``created-by``, ``__author__``, ``general.authors``.
- A person's name has letters of any script, apostrophes, particles in small letters (``van``), and initials.
  Where an entry can name nobody but people, as ``author`` does, small letters are enough: ``ann lee``.
- An account may have a domain before it: ``CORP\ann``.
- A value may name several people: a list, or names with commas, semicolons, ``&`` or ``and`` between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.patterns import pattern_of
from archive.privacy.leaks.vocabulary import (
    HOSTS,
    NOBODY,
    USERS,
    Detection,
    LeakKind,
    is_word_of_code,
    matched,
)
from archive.privacy.leaks.words import present

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.privacy.leaks.words import FoundWords

MOST_OF_VALUE = 1 << 12
"""Bytes of the longest value that names somebody."""
SEPARATORS = b"_- "
LONGEST_NAME = 64
"""Bytes of the longest name of an entry."""
OF_AUTHORS = frozenset(
    b"author owner creator createdby submittedby uploadedby maintainer contributor trainedby authorname "
    b"ownername modelauthor modelcreator annotator annotatedby labeledby labelledby reviewer reviewedby "
    b"committer contact patient autor auteur autore verfasser gituser wandbentity wandbuser whoami".split()
)
"""Names of entries that can only name people, without separators."""
OF_USERS = OF_AUTHORS | {name.lower().translate(None, SEPARATORS) for name in USERS}
OF_HOSTS = frozenset(name.lower().translate(None, SEPARATORS) for name in HOSTS)
OF_CLASS = b"__torch__."
"""Begins the name of a class, beside which pickles have the name of a module: ``__torch__.net.Host``."""
NO_NAMES = frozenset(
    b"localhost none null str string unknown username hostname name anonymous various n/a na tbd true false "
    b"undefined optional any 127.0.0.1 0.0.0.0".split()
)
"""Values of such entries that name nobody, in small letters."""
NEGATIONS = (b"no ", b"not ", b"none ", b"unknown ")
"""Beginnings of values that say that nobody is named."""

LETTERS = rb"\w\x80-\xff"
PARTICLE = (
    rb"(?:van|von|vom|de|der|den|dem|del|della|di|da|das|do|dos|du|la|le|el|al|bin|ibn|ter|ten|zu|zum|y|e)"
)
CAPITALISED = rb"[A-Z\x80-\xff][" + LETTERS + rb".'-]*+"
ACCOUNT = rb"[A-Za-z0-9\x80-\xff][" + LETTERS + rb".'-]{1,62}"
NEXT = rb"(?: (?:" + PARTICLE + rb"(?= )|[A-Za-z]'?" + CAPITALISED + rb"|" + CAPITALISED + rb"))"
PERSON = pattern_of(rb"(?:" + PARTICLE + rb" ){0,2}" + CAPITALISED + NEXT + rb"{1,6}|" + ACCOUNT)
IN_SMALL_LETTERS = pattern_of(rb"[" + LETTERS + rb".'-]{1,40}(?: [" + LETTERS + rb".'-]{1,40}){1,4}")
IN_DOMAIN = pattern_of(rb"([A-Za-z][\w.-]{0,62})\\{1,4}(" + ACCOUNT + rb")")
MACHINE = pattern_of(rb"[A-Za-z0-9][\w.-]{1,62}(?:\[[\d,-]{1,64}\])?(?::\d{1,5})?")
"""A machine, several with numbers (``gpu[01-04]``), and its port."""
SIGNED = pattern_of(
    rb"(?=[AaMmVvCcWwTtLlSsRr])(?<![\w.])(?i:authors?|maintainers?|autore?n?|auteure?s?|verfasser|contact|annotator"
    rb"|(?:created|written|maintained|trained|annotated|labell?ed) by"
    rb"|(?:signed-off|co-authored|reviewed|acked|tested)-by)"
    rb"[\"']?(?:[ \t]{0,4}[:=])?[ \t]{1,4}"
)
"""What stands before a name of two words or more in a text."""
SIGNS = (
    *(
        b"author",
        b"maintain",
        b"autor",
        b"auteur",
        b"verfasser",
        b"contact",
        b"annotat",
        b"created",
        b"written by",
    ),
    *(b"trained by", b"labeled", b"labelled", b"signed-off-by", b"reviewed-by", b"acked-by", b"tested-by"),
)
"""Words of which it has one, in small letters."""
BRACKETS = {b"TODO(": 0, b"FIXME(": 0, b"XXX(": 0, b"HACK(": 0, b"id=": 1}
"""What stands in such a note, and how far after its first byte."""
IN_BRACKETS = pattern_of(rb"(?<![\w.])(?:TODO|FIXME|XXX|HACK|[ug]id=\d{1,10})\(([a-z][\w.-]{2,31})\)")
"""An account after a note, or after its number."""
SIGNATURE = pattern_of(
    CAPITALISED + NEXT + rb"{1,4}(?=[ \t]?[<(,;.\n\0\"']|[ \t]++(?:on|in|at|and|from)\b|[ \t]*+\Z)"
)
BETWEEN = pattern_of(rb" ?[,;&\n] ?(?:and )?| and ")
"""What stands between names in a list of them."""
BRACKETED = pattern_of(rb" ?[<(][^<>()]{0,200}[>)]\Z")
"""An address or an institute after a name."""
PRODUCT = pattern_of(rb"(?<!\bMc)(?<!\bMac)(?<=[a-z])[A-Z]")
"""A capital within a word, which products have: ``PyTorch``."""


def kind_of(name: bytes) -> LeakKind | None:
    """What an entry of a name is about: a user, a host; None for others."""
    if len(name) > LONGEST_NAME or name.startswith(OF_CLASS):
        return None
    last = name.rpartition(b".")[2].lower().translate(None, SEPARATORS)
    for one in (last, last.removesuffix(b"s")):
        if one in OF_USERS:
            return LeakKind.USER
        if one in OF_HOSTS:
            return LeakKind.HOST
    return None


def named_by(name: bytes, value: bytes) -> Iterator[tuple[LeakKind, int, bytes]]:
    """The people and machines that an entry's value names, each with where it begins in the value."""
    kind = kind_of(name)
    if kind is LeakKind.HOST and MACHINE.fullmatch(value) and is_somebody(value):
        yield kind, 0, value
    if kind is not LeakKind.USER or value.lower().startswith(NEGATIONS):
        return
    last = name.rpartition(b".")[2].lower().translate(None, SEPARATORS)
    is_author = last in OF_AUTHORS or last.removesuffix(b"s") in OF_AUTHORS
    at = 0
    for text, begin in _each(value):
        one = BRACKETED.sub(b"", text)
        domain = IN_DOMAIN.fullmatch(one)
        if domain:
            yield LeakKind.HOST, begin, domain[1]
            at, one = begin + domain.start(2), domain[2]
        else:
            at = begin
        is_named = PERSON.fullmatch(one) or (is_author and IN_SMALL_LETTERS.fullmatch(one))
        if is_named and is_somebody(one):
            yield LeakKind.USER, at, one


def signed(data: bytes, words: FoundWords) -> Iterator[Detection]:
    """The people that a text is by, ``Author: Ann Lee``, or that it leaves work to: ``TODO(ann)``.

    Args:
        data: the text.
        words: of ``SIGNS`` and ``BRACKETS``, those that are in it.
    """
    for mark in present(BRACKETS, words):
        for match in matched(data, mark, BRACKETS[mark], IN_BRACKETS):
            if is_somebody(match[1]):
                yield Detection(LeakKind.USER, match.start(1), match[1])
    if not any(word in SIGNS for word in words.in_any_case):
        return
    for match in SIGNED.finditer(data):
        name = SIGNATURE.match(data, match.end())
        if name and is_somebody(name[0]) and not PRODUCT.search(name[0]):
            yield Detection(LeakKind.USER, name.start(), name[0].rstrip(b"."))


def _each(value: bytes) -> Iterator[tuple[bytes, int]]:
    """The names in a value, and where each begins."""
    at = 0
    for between in BETWEEN.finditer(value):
        yield value[at : between.start()], at
        at = between.end()
    yield value[at:], at


def is_somebody(value: bytes) -> bool:
    """Whether a value names somebody or a machine, not an account or a word that everyone has."""
    lowered = value.lower()
    return not (value in NOBODY or lowered in NO_NAMES or is_word_of_code(value) or value.isdigit())
