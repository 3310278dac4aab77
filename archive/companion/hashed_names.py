"""The hashes that replace names in a redacted archive.

A hash is a letter and eight hexadecimal digits, an identifier in every language: ``C35f12c68`` for a name
that begins with a capital, ``a60d9c411`` for others. The digits are those of BLAKE2b, keyed by a salt that no
other file has, so a dictionary of names reveals nothing. The companion has the salt.
"""

from __future__ import annotations

import hashlib
import re

from archive.base.errors import ArchiveError, shown

SALT_BYTES = 16
HASH_BYTES = 4
HASH = re.compile(rb"\b[aC][0-9a-f]{%d}\b" % (2 * HASH_BYTES))
"""A hash in a text."""
SALT = re.compile(f"[0-9a-f]{{{2 * SALT_BYTES}}}")


def hashed(name: str, salt: bytes) -> str:
    """The hash of a name.

    >>> hashed("Scoring", bytes(16)), hashed("blacklist_embedding", bytes(16))
    ('C35f12c68', 'a60d9c411')
    """
    data = name.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(data, key=salt, digest_size=HASH_BYTES).hexdigest()
    return ("C" if name[:1].isupper() else "a") + digest


def salt_of(digits: str) -> bytes:
    """A salt from its digits."""
    if not SALT.fullmatch(digits):
        expected = f"{2 * SALT_BYTES} hexadecimal digits"
        raise ArchiveError(place="file.salt", expected=expected, found=shown(digits))
    return bytes.fromhex(digits)
