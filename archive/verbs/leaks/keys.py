"""Key-like strings, e-mail addresses and URLs in texts.

A key is known by the prefix that its issuer gives it, or stands behind a word like ``token =`` and has the
entropy of random letters and digits. Digests, which builds are full of, have neither.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from archive.verbs.leaks.kinds import LeakKind
from archive.verbs.leaks.paths import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN = (
    (b"AKIA", rb"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),  # Amazon
    (b"ASIA", rb"(?<![A-Za-z0-9])ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    (b"AIza", rb"AIza[\w-]{35}"),  # Google
    (b"ghp_", rb"ghp_[A-Za-z0-9]{36,}"),  # GitHub
    (b"gho_", rb"gho_[A-Za-z0-9]{36,}"),
    (b"ghs_", rb"ghs_[A-Za-z0-9]{36,}"),
    (b"github_pat_", rb"github_pat_\w{50,}"),
    (b"glpat-", rb"glpat-[\w-]{20,}"),  # GitLab
    (b"hf_", rb"(?<![A-Za-z0-9_])hf_[A-Za-z]{34}(?![A-Za-z0-9])"),  # Hugging Face
    (b"npm_", rb"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    (b"pypi-", rb"pypi-[\w-]{60,}"),
    (b"sk-", rb"(?<![A-Za-z0-9-])sk-(?:proj-|ant-|live-)?[\w-]{32,}"),  # OpenAI, Anthropic
    (b"sk_live_", rb"sk_live_[A-Za-z0-9]{20,}"),  # Stripe
    (b"xox", rb"xox[abprs]-[A-Za-z0-9-]{20,}"),  # Slack
    (b"SG.", rb"(?<![A-Za-z0-9])SG\.[\w-]{22}\.[\w-]{43}"),  # SendGrid
    (b"eyJ", rb"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),  # JSON Web Token
    (b"PRIVATE KEY", rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
)
PATTERNS = [(word, re.compile(pattern)) for word, pattern in KNOWN]
"""A word that is looked for first, and the pattern of keys that have it."""
WORDS = (
    b"apikey",
    b"api_key",
    b"accesskey",
    b"access_key",
    b"secret",
    b"token",
    b"passw",
    b"credential",
    b"auth",
)
NAMED = re.compile(
    rb"(?i:api_?key|access_?key|secret|token|passw(?:or)?d|credential|auth)\w{0,20}[\"']?"
    rb"[ \t]{0,4}(?:=|:)[ \t]{0,4}[\"']?([A-Za-z0-9+/_=-]{20,})"
)
BITS = 3.8
"""Bits of entropy a character, of strings of 20 and more; words have some 3."""
USER = rb"[A-Za-z0-9][\w.+-]{0,63}"
TOP = (
    rb"(?:com|org|net|edu|gov|mil|int|io|ai|dev|app|info|biz|cloud|tech|name|local|internal|corp|example|test"
    rb"|co\.[a-z]{2}|ac\.[a-z]{2}|de|uk|fr|jp|cn|ru|ch|at|eu|us|nl|se|no|fi|dk|pl|es|br|ca|au|kr|tw|il|cz|be|ie|nz)"
)
MAILBOX = re.compile(rb"(?<![\w.+/:@-])" + USER + rb"\Z")
DOMAIN = re.compile(rb"(?:[A-Za-z0-9-]{1,63}\.){1,4}" + TOP + rb"(?![\w(\[=@])")
SCHEME = re.compile(rb"(?<![A-Za-z])(?:https?|ftp|s3|gs|hdfs|ssh|git|file|abfss?|wasbs?|manifold)\Z")
MOST_BEFORE = 65
"""Bytes before ``@`` or ``://`` in which an address may begin, and the one before."""
LOCATION = re.compile(rb"[^\x00-\x20\x7f\"'<>`\\{}|^\x80-\xff]+")
URL_TRIMMED = b".,;:!)]*#"
PUBLIC = re.compile(
    rb"https?://(?:[\w-]+\.)*(?:pytorch\.org|python\.org|arxiv\.org|doi\.org|wikipedia\.org|w3\.org|apache\.org"
    rb"|numpy\.org|scipy\.org|nvidia\.com|openreview\.net)(?=[/:?#]|$)"
    rb"|https?://(?:www\.)?github\.com/(?:pytorch|python|numpy)(?=[/?#]|$)"
)
"""URLs that PyTorch's own docstrings have, and that everyone knows."""


def keys(data: bytes) -> Iterator[Found]:
    """The key-like strings in a text."""
    for word, pattern in PATTERNS:
        if word in data:
            for one in pattern.finditer(data):
                yield Found(LeakKind.KEY, one.start(), one[0])
    lowered = data.lower()
    found = {at: None for word in WORDS for at in _places(lowered, word)}
    end = 0
    for at in sorted(found):
        named = NAMED.match(data, at) if at >= end else None
        end = named.end() if named else end
        if named and _is_random(named[1]) and not any(known.search(named[1]) for _, known in PATTERNS):
            yield Found(LeakKind.KEY, named.start(1), named[1])


def _places(data: bytes, word: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)


def _is_random(text: bytes) -> bool:
    counts = Counter(text).values()
    bits = -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
    has = [bool(re.search(some, text)) for some in (rb"[A-Z]", rb"[a-z]", rb"[0-9]")]
    return bits >= BITS and has[2] and (has[0] or has[1])


def addresses(data: bytes) -> Iterator[Found]:
    """The e-mail addresses and URLs in a text."""
    for at, start in _begun(data, b"@", MAILBOX):
        domain = DOMAIN.match(data, at + 1)
        if domain:
            yield Found(LeakKind.EMAIL, start, data[start : domain.end()])
    end = 0
    for at, start in _begun(data, b"://", SCHEME):
        rest = LOCATION.match(data, at + 3) if start >= end else None
        if rest is not None:
            end = rest.end()
            if not PUBLIC.match(data, start):
                yield Found(LeakKind.URL, start, data[start:end].rstrip(URL_TRIMMED))


def _begun(data: bytes, mark: bytes, before: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Where a mark stands, and where what belongs before it begins."""
    at = data.find(mark)
    while at >= 0:
        low = max(at - MOST_BEFORE, 0)
        begun = before.search(data[low:at])
        if begun:
            yield at, low + begun.start()
        at = data.find(mark, at + len(mark))
