"""Key-like strings in texts.

A key is known by the prefix that its issuer gives it, or stands behind a word like ``token =`` and has the
entropy of random letters and digits. Digests, which builds are full of, have neither.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from archive.privacy.leaks.kinds import LeakKind
from archive.privacy.leaks.vocabulary import Found, matched

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN = (
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
    (b"glpat-", rb"glpat-[\w-]{20,}"),  # GitLab
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
    (b"eyJ", rb"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),  # JSON Web Token
    (b"-----BEGIN ", rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"),
)
PATTERNS = [(word, re.compile(pattern)) for word, pattern in KNOWN]
"""A word that is looked for first, and the pattern of keys that have it."""
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
    b"pwd",
    b"credential",
    b"auth",
)
CALLED = (
    rb"(?i:api_?key|access_?key|private_key|secret|token(?!iz)|passw(?:or)?d|pwd|credential|auth(?!ors?(?![a-z])))"
    rb"\w{0,20}"
)
"""What a key is called."""
NAMED = re.compile(
    CALLED + rb"[\"']?[ \t]{0,4}(?:=|:)[ \t]{0,4}(?:(?:Bearer|Basic|Token) )?[\"']?([A-Za-z0-9+/_=-]{20,})"
)
BITS = 3.8
"""Bits of entropy a character, of strings of 20 and more; words have some 3."""
BITS_OF_HEX = 3.0
"""The same of hexadecimal digits, of which each has 4 at most."""
HEX = re.compile(rb"[a-f0-9]{32,}|[A-F0-9]{32,}")


def keys(data: bytes) -> Iterator[Found]:
    """The key-like strings in a text."""
    for word, pattern in PATTERNS:
        for one in matched(data, word, BEFORE.get(word, 0), pattern):
            yield Found(LeakKind.KEY, one.start(), one[0])
    lowered = data.lower()
    found = {at: None for word in WORDS for at in _places(lowered, word)}
    end = 0
    for at in sorted(found):
        named = NAMED.match(data, at) if at >= end else None
        end = named.end() if named else end
        if named and is_key(named[1]):
            yield Found(LeakKind.KEY, named.start(1), named[1])


def is_key(text: bytes) -> bool:
    """Whether a text behind a word is a key, and not of those that are known by their prefix."""
    return _is_random(text) and not any(known.search(text) for _, known in PATTERNS)


def _places(data: bytes, word: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)


def _is_random(text: bytes) -> bool:
    counts = Counter(text).values()
    bits = -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
    has = [bool(re.search(some, text)) for some in (rb"[A-Z]", rb"[a-z]", rb"[0-9]")]
    return bits >= (BITS_OF_HEX if HEX.fullmatch(text) else BITS) and has[2] and (has[0] or has[1])
