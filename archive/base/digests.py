"""The digest that identifies the contents of files in manifests, stores, caches and entity tags."""

from __future__ import annotations

DIGEST_WIDTH = 16


def digest_of(*parts: bytes | memoryview) -> bytes:
    """The blake2b digest, 16 bytes, of concatenated parts."""
    from hashlib import blake2b  # noqa: PLC0415 (it loads OpenSSL; many only name the width)

    digest = blake2b(digest_size=DIGEST_WIDTH)
    for part in parts:
        digest.update(part)
    return digest.digest()
