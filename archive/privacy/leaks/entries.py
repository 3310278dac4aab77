r"""Keys, and entries whose names say user, host or key: ``{"api_key": …}``, ``USER=ann``.

A key is known by its issuer's prefix, or follows a word like ``token =`` and has the entropy of random
letters and digits. Digests, which builds are full of, have neither.

Name and value of an entry are strings of their own in pickles and JSON, so bytes are read as they stand: a
name, what a pickle, JSON or a shell has between, and a value.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from archive.base.patterns import pattern_of
from archive.privacy.leaks.addresses import AT
from archive.privacy.leaks.hosts import MARKS_OF_HOSTS, NAMES_OF_HOSTS
from archive.privacy.leaks.paths import MARKS_OF_HOMES
from archive.privacy.leaks.people import BRACKETS, MOST_OF_VALUE, SIGNS, is_somebody, kind_of, named_by
from archive.privacy.leaks.stored import stored_entries
from archive.privacy.leaks.vocabulary import (
    HOSTS,
    USERS,
    Detection,
    LeakKind,
    matched,
    places_of,
)
from archive.privacy.leaks.words import Words
from archive.privacy.pieces.encoded import entropy
from archive.privacy.pieces.pickle_strings import PickleLayer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.privacy.leaks.words import FoundWords
    from archive.privacy.pieces.strings import PieceStrings

# --- keys

ISSUED = (
    (b"AKIA", rb"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),  # Amazon
    (b"ASIA", rb"(?<![A-Za-z0-9])ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    (b"AIza", rb"AIza[\w-]{35}"),  # Google
    (b"ya29.", rb"(?<!\w)ya29\.[\w-]{20,}"),
    (b"GOCSPX-", rb"GOCSPX-[\w-]{20,}"),
    (b"AccountKey=", rb"(?<=AccountKey=)[A-Za-z0-9+/]{40,}={0,2}"),  # Azure
    (b"ghp_", rb"ghp_[A-Za-z0-9]{36,}"),  # GitHub
    (b"gho_", rb"gho_[A-Za-z0-9]{36,}"),
    (b"ghs_", rb"ghs_[A-Za-z0-9]{36,}"),
    (b"ghu_", rb"ghu_[A-Za-z0-9]{36,}"),
    (b"ghr_", rb"ghr_[A-Za-z0-9]{36,}"),
    (b"github_pat_", rb"github_pat_\w{50,}"),
    *(
        (name, name + rb"[\w-]{20,}") for name in (b"glpat-", b"gldt-", b"glrt-", b"glptt-", b"glcbt-")
    ),  # GitLab
    (b"dapi", rb"(?<![A-Za-z0-9])dapi[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9])"),  # Databricks
    (b"hvs.", rb"(?<!\w)hvs\.[\w-]{24,}"),  # Vault
    (b"hvb.", rb"(?<!\w)hvb\.[\w-]{24,}"),
    (b"xai-", rb"(?<![A-Za-z0-9])xai-[A-Za-z0-9]{40,}"),  # xAI
    (b"dop_v1_", rb"dop_v1_[a-f0-9]{64}"),  # DigitalOcean
    (b"doo_v1_", rb"doo_v1_[a-f0-9]{64}"),
    (b":AA", rb"(?<=\d{8}):AA[\w-]{33}(?![\w-])"),  # Telegram, after the number of the bot
    (b"hf_", rb"(?<![A-Za-z0-9_])hf_[A-Za-z]{34}(?![A-Za-z0-9])"),  # Hugging Face
    (b"api_org_", rb"(?<![A-Za-z0-9_])api_org_[A-Za-z]{34}(?![A-Za-z0-9])"),
    (b"npm_", rb"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    (b"pypi-", rb"pypi-[\w-]{60,}"),
    (b"dckr_pat_", rb"dckr_pat_[\w-]{20,}"),  # Docker
    (b"sk-", rb"(?<![A-Za-z0-9-])sk-(?:proj-|ant-|live-)?[\w-]{32,}"),  # OpenAI, Anthropic
    (b"gsk_", rb"(?<![A-Za-z0-9_])gsk_[A-Za-z0-9]{40,}"),  # Groq
    (b"nvapi-", rb"nvapi-[\w-]{40,}"),  # NVIDIA
    (b"r8_", rb"(?<![A-Za-z0-9_])r8_[A-Za-z0-9]{37}(?![A-Za-z0-9])"),  # Replicate
    (b"k_live_", rb"[sr]k_live_[A-Za-z0-9]{20,}"),  # Stripe
    (b"k_test_", rb"[sr]k_test_[A-Za-z0-9]{20,}"),
    (b"xox", rb"xox[abprs]-[A-Za-z0-9-]{20,}"),  # Slack
    (b"xapp-", rb"xapp-[A-Za-z0-9-]{20,}"),
    (b"SG.", rb"(?<![A-Za-z0-9])SG\.[\w-]{22}\.[\w-]{43}"),  # SendGrid
    (b"lin_api_", rb"lin_api_[A-Za-z0-9]{40,}"),  # Linear
    (b"figd_", rb"figd_[\w-]{36,}"),  # Figma
    *((name, name + rb"[a-fA-F0-9]{32}") for name in (b"shpat_", b"shpss_", b"shpca_", b"shppa_")),  # Shopify
    (b"ATATT3", rb"ATATT3[\w=-]{30,}"),  # Atlassian
    (b"sq0", rb"sq0(?:atp|csp)-[\w-]{20,}"),  # Square
    (b"key-", rb"(?<![\w-])key-[a-f0-9]{32}(?![\w-])"),  # Mailgun
    (b"glsa_", rb"glsa_\w{32,}"),  # Grafana
    (b"pul-", rb"(?<![\w-])pul-[a-f0-9]{40}(?!\w)"),  # Pulumi
    (b"tskey-", rb"tskey-[a-z]{2,10}-[\w-]{20,}"),  # Tailscale
    (b"lsv2_", rb"lsv2_[ps][tk]_\w{32,}"),  # LangSmith
    (b"pplx-", rb"pplx-[A-Za-z0-9]{40,}"),  # Perplexity
    (b"AGE-SECRET-KEY-1", rb"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),  # age
    (b"eyJ", rb"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),  # JSON Web Token
    (b"-----BEGIN ", rb"-----BEGIN (?:[A-Z]+ ){0,8}PRIVATE KEY(?: BLOCK)?-----"),
)
"""A word that is looked for first, and the pattern of keys with it: nearly all files have none of these."""
BEFORE = {b"k_live_": 1, b"k_test_": 1, b"AccountKey=": -len(b"AccountKey=")}
"""Bytes of a key before its word; most begin with it."""
WORDS = (
    b"apikey",
    b"api_key",
    b"accesskey",
    b"access_key",
    b"private_key",
    b"secret",
    b"token",
    b"passw",
    b"passphrase",
    b"pwd",
    b"credential",
    b"auth",
)
CALLED = (
    rb"(?i:api_?key|access_?key|private_key|secret|token(?!iz)|passw(?:or)?d|passphrase|pwd|credential|auth(?!ors?(?![a-z])))"
    rb"\w{0,20}"
)
"""What a key is called."""
CALLED_KEY = pattern_of(
    CALLED + rb"[\"']?[ \t]{0,4}(?:=|:)[ \t]{0,4}(?:(?:Bearer|Basic|Token) )?[\"']?([A-Za-z0-9+/_=-]{20,})"
)
BITS = 3.8
"""Bits of entropy per character of strings of 20 and more; words have some 3."""
BITS_OF_HEX = 3.0
"""The same of hexadecimal digits, each of which has at most 4."""
HEX = pattern_of(rb"[a-f0-9]{32,}|[A-F0-9]{32,}")


def keys(data: bytes, words: FoundWords) -> Iterator[Detection]:
    """The key-like strings in a text, which has some words of ``TELLING``."""
    if not any(words):
        return
    for word, pattern in ISSUED:
        if word in words.exact:
            for match in matched(data, word, BEFORE.get(word, 0), re.compile(pattern)):
                yield Detection(LeakKind.KEY, match.start(), match[0])
    places = _Places(data, [word for word in WORDS if word in words.in_any_case])
    at = places.first_from(0)
    while at >= 0:
        called = CALLED_KEY.match(data, at)
        if called and is_key(called[1]):
            yield Detection(LeakKind.KEY, called.start(1), called[1])
        at = places.first_from(called.end() if called else at + 1)


class _Places:
    """Where some words stand in a text, in letters of either case. There may be millions: none is kept."""

    def __init__(self, data: bytes, words: Sequence[bytes]) -> None:
        self._lowered = data.lower() if words else b""
        self._next = dict.fromkeys(words, -1)

    def first_from(self, at: int) -> int:
        """The first place at or after ``at``, which never decreases; -1 if there is none."""
        for word, place in list(self._next.items()):
            if place < at:
                self._next[word] = self._lowered.find(word, at)
                if self._next[word] < 0:
                    del self._next[word]
        return min(self._next.values(), default=-1)


def is_key(text: bytes) -> bool:
    """Whether a text after a word is a key, and not one that is known by its prefix."""
    has_letters = re.search(rb"[A-Za-z]", text) is not None
    if not has_letters or re.search(rb"[0-9]", text) is None:
        return False
    if entropy(text) < (BITS_OF_HEX if HEX.fullmatch(text) else BITS):
        return False
    return not any(re.search(pattern, text) for _, pattern in ISSUED)


# --- entries

QUOTED = (
    rb"(\\{0,7}[\"'])?[ \t]{0,4}[:=][ \t]{0,4}\\{0,7}(?:\"(?P<double>[^\"\\\n]{2,500})\\{0,7}\""
    rb"|'(?P<single>[^'\\\n]{2,500})\\{0,7}')"
)
PICKLED = rb"(?:q.|r.{4}|\x94)?(?:X(?P<four>.{4})|[\x8cU](?P<one>.))"
"""An opcode that remembers the name, perhaps, and the one of the value with its length."""
VALUE = rb"(?:" + QUOTED + rb"|" + PICKLED + rb")"
CALLS = {LeakKind.USER: USERS, LeakKind.HOST: HOSTS}
"""What users and hosts are called."""
ENTRIES = {
    kind: pattern_of(rb"(?:" + b"|".join(names) + rb")" + VALUE, re.DOTALL) for kind, names in CALLS.items()
}
NAMES_OF_PEOPLE = (
    *(b"author", b"owner", b"creator", b"created", b"submitted", b"uploaded", b"login", b"user"),
    *(
        b"maintainer",
        b"contributor",
        b"trained_by",
        b"logname",
        b"annotat",
        b"labeled",
        b"labelled",
        b"review",
    ),
    *(b"committer", b"contact", b"patient", b"autor", b"auteur", b"verfasser", b"entity", b"whoami"),
)
"""What stands in names of entries that name people, in small letters."""
BEFORE_NAME = pattern_of(rb"[\w.-]{1,24}\Z")
NAMED = pattern_of(rb"[\w.-]{2,64}(?=(?:\\{0,7}[\"'])?[ \t]{0,4}[:=])")
NAMED_TEXT = pattern_of(QUOTED)
KEY_OF_GGUF = pattern_of(rb"[\w.-]{2,64}")
IN_GGUF = pattern_of(rb"(?:(?P<list>\x09\0{3})\x08\0{3}(?P<count>.{8})|\x08\0{3})(?=.{8})", re.DOTALL)
"""What GGUF has between a key and a text, or a list of texts: each begins with its length of 64 bits."""
WIDE_LENGTH, MOST_IN_GGUF = 8, 64
KEYS = pattern_of(rb"(?P<name>" + CALLED + rb")" + VALUE, re.DOTALL)
VARIABLES = {
    kind: pattern_of(
        rb"(?:"
        + b"|".join(name for name in names if name.isupper())
        + rb")=[\"']?([A-Za-z0-9][\w.-]{1,62}(?:\[[\d,-]{1,64}\])?)(?![\w(\[])"
    )
    for kind, names in CALLS.items()
}
CALLED_SO = pattern_of(CALLED + rb"\Z")
PASSWORD_VARIABLE = b"PASSW"
SECRET_VARIABLE = pattern_of(rb"PASSW(?:OR)?D=[\"']?([^\s\"'\x00$(<]{6,200})")
PASSWORD_IN_TEXT = pattern_of(
    rb"(?i:passw(?:or)?d|passphrase)[ ]?[:=][ ]?(?=[^\s]{0,64}\d)(?=[^\s]{0,64}[A-Za-z])"
    rb"([^\s\"'()\[\]{}<>,;.=$]{6,64})(?![\w.(\[])"
)
PASSWORD = pattern_of(rb"(?i:passw(?:or)?d|passphrase|pwd|secret(?:_?key)?)\Z")
PRIVATE_KEY = b"PRIVATE KEY"
BODY = pattern_of(
    rb"PRIVATE KEY(?: BLOCK)?-----(?:(?:\s|\\{1,4}[nr])+(?:[\w-]+: [^\n\\]{0,200}|[A-Za-z0-9+/=]{16,4096}))+"
)
"""The lines after the heading of a private key, some of them base64."""
LINE = pattern_of(rb"(?:\s|\\[nr])([A-Za-z0-9+/=]{16,4096})(?![A-Za-z0-9+/=:-])")
SECRET = pattern_of(rb"[^\s<>{}\[\]()]{6,200}")
KEY = pattern_of(rb"(?:(?:Bearer|Basic|Token) )?([A-Za-z0-9+/_=.~-]{20,})")
NO_SECRETS = frozenset(b"password passwd string secret required optional hidden private".split())
WIDEST = 1 << 16
MOST_REPEATED = 1 << 10
"""Names that are cached: records repeat the same few."""
TELLING = Words(
    [
        *(word for word, _ in ISSUED),
        *USERS,
        *HOSTS,
        PASSWORD_VARIABLE,
        PRIVATE_KEY,
        *BRACKETS,
        *MARKS_OF_HOSTS,
        *MARKS_OF_HOMES,
    ],
    [*WORDS, *dict.fromkeys((*NAMES_OF_PEOPLE, *SIGNS, *NAMES_OF_HOSTS)), *AT],
)
"""Words that an entry may follow, or that it contains, and those beside which other detectors look."""


def entries(data: bytes, words: FoundWords, strings: PieceStrings | None = None) -> Iterator[Detection]:
    """The entries in some bytes that give something away.

    Args:
        data: the bytes, as they stand in a record.
        words: those of ``TELLING`` that their lines contain: only entries with these are looked for.
        strings: the same bytes' strings, in which pickles, JSON and settings have entries; None where the
            bytes are only lines of text.
    """
    seen = set[int]()
    layers = strings.layers[:1] if strings else []
    is_pickle = any(isinstance(layer, PickleLayer) for layer in layers)
    stored = _stored(strings) if strings else iter(())
    in_bytes = (_in_text(data, words), _of_machines(data, words), _keys_of_entries(data, words))
    for number, some in enumerate((stored, *in_bytes) if any(words) else (stored,)):
        for detection, is_pickled in some:
            if detection.at not in seen and not (number and is_pickled and is_pickle):
                seen.add(detection.at)
                yield detection
    if PRIVATE_KEY in words.exact:
        for key in BODY.finditer(data):
            for line in LINE.finditer(data, *key.span()):
                yield Detection(LeakKind.KEY, line.start(1), line[1])


def _stored(strings: PieceStrings) -> Iterator[tuple[Detection, bool]]:
    """What entries of pickles, JSON and settings name."""
    for name, value, at in stored_entries(strings, _is_telling):
        if kind_of(name) is not None:
            for kind, begin, text in named_by(name, value):
                yield Detection(kind, at + begin, text), True
        elif _is_secret(name, value):
            yield Detection(LeakKind.KEY, at, value), True


@lru_cache(MOST_REPEATED)
def _is_telling(name: bytes) -> bool:
    """Whether entries of a name reveal people, machines or keys."""
    return kind_of(name) is not None or CALLED_SO.search(name) is not None


def _in_text(data: bytes, words: FoundWords) -> Iterator[tuple[Detection, bool]]:
    """What entries in quotes name, and what a pickle in other bytes has."""
    present = [word for word in NAMES_OF_PEOPLE if word in words.in_any_case]
    lowered = data.lower() if present else b""
    for word in present:
        for at in places_of(lowered, word):
            before = BEFORE_NAME.search(data[max(at - 24, 0) : at])
            start = at - len(before[0]) if before else at
            yield from _in_gguf(data, start)
            name = NAMED.match(data, start)
            text = NAMED_TEXT.match(data, name.end()) if name and kind_of(name[0]) else None
            if name and text:
                begin, value = _value(data, text)
                for kind, more, found in named_by(name[0], value):
                    yield Detection(kind, begin + more, found), False


def _in_gguf(data: bytes, start: int) -> Iterator[tuple[Detection, bool]]:
    """Whom a key of GGUF names."""
    key = KEY_OF_GGUF.match(data, start)
    found = IN_GGUF.match(data, key.end()) if key and kind_of(key[0]) else None
    if key is None or found is None:
        return
    count = min(int.from_bytes(found["count"], "little"), MOST_IN_GGUF) if found["list"] else 1
    at = found.end()
    for _ in range(count):
        begin = at + WIDE_LENGTH
        at = begin + int.from_bytes(data[at:begin], "little")
        if at > len(data) or at - begin > MOST_OF_VALUE:
            return
        for kind, more, text in named_by(key[0], data[begin:at]):
            yield Detection(kind, begin + more, text), False


def _of_machines(data: bytes, words: FoundWords) -> Iterator[tuple[Detection, bool]]:
    """What entries in quotes, or with the instructions of a pickle between, name by one of their names."""
    for kind, names in CALLS.items():
        for name in names:
            if name not in words.exact:
                continue
            for match in matched(data, name, 0, ENTRIES[kind]):
                if _is_whole(data, match.start()):
                    at, value = _value(data, match)
                    for found, begin, text in named_by(name, value):
                        yield Detection(found, at + begin, text), _is_pickled(match)


def _is_pickled(match: re.Match[bytes]) -> bool:
    """Whether a value is stored as a pickle does."""
    return match["one"] is not None or match["four"] is not None


def variables(strings: bytes, words: FoundWords) -> Iterator[Detection]:
    """The variables of an environment in lines of text that give something away: ``USER=ann``."""
    if not any(words):
        return
    for kind, names in CALLS.items():
        for name in names:
            if name.isupper() and name in words.exact:
                for match in matched(strings, name, 0, VARIABLES[kind]):
                    if _is_whole(strings, match.start()) and is_somebody(match[1]):
                        yield Detection(kind, match.start(1), match[1])
    if b"passw" in words.in_any_case or b"passphrase" in words.in_any_case:
        for match in PASSWORD_IN_TEXT.finditer(strings):
            yield Detection(LeakKind.KEY, match.start(1), match[1])
    if PASSWORD_VARIABLE in words.exact:
        for match in matched(strings, PASSWORD_VARIABLE, 0, SECRET_VARIABLE):
            yield Detection(LeakKind.KEY, match.start(1), match[1])


def _is_whole(data: bytes, at: int) -> bool:
    """Whether a name begins at a place, and none goes on."""
    before = data[at - 1 : at] if at else b""
    return not before.isalnum() and before != b"_"


def _keys_of_entries(data: bytes, words: FoundWords) -> Iterator[tuple[Detection, bool]]:
    """The values of entries that have a key's name, and look like a key or a password."""
    present, seen = [word for word in WORDS if word in words.in_any_case], set()
    lowered = data.lower() if present else b""
    for word in present:
        for at in places_of(lowered, word):
            match = KEYS.match(data, at)
            if match is None:
                continue
            start, value = _value(data, match)
            if start not in seen and _is_secret(match["name"], value):
                seen.add(start)
                yield Detection(LeakKind.KEY, start, value), _is_pickled(match)


def _is_secret(name: bytes, value: bytes) -> bool:
    """Whether a value of a key's name looks like a key, or like a password where the name is that of one."""
    key = KEY.fullmatch(value)
    is_password = (
        PASSWORD.search(name) is not None
        and SECRET.fullmatch(value) is not None
        and value.lower() not in NO_SECRETS
    )
    return is_password or (key is not None and is_key(key[1]))


def _value(data: bytes, match: re.Match[bytes]) -> tuple[int, bytes]:
    """The value after a name, and its first byte."""
    for group in ("double", "single"):
        if match[group] is not None:
            return match.start(group), match[group]
    length = int.from_bytes(match["four"] or match["one"], "little")
    return match.end(), data[match.end() : match.end() + min(length, WIDEST)]
