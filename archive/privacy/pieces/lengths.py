"""Length bytes before texts: a text is found whatever stands before it.

Protobuf, MessagePack, CBOR and marshal store a text's length in the byte before it. A length of 48 is a
``0``, one of 97 an ``a``: before ``/srv/team/net.py`` that looks like a path without a root, and before a
token like a longer word. A byte is a length if as many bytes follow as it says, none of which is a control,
if what stands before it can be a tag, and if what follows these bytes can be the next one.
"""

from __future__ import annotations

import re
from itertools import chain

from archive.base.patterns import pattern_of

WIRE_TYPE, OF_TEXTS = 0b111, 2
"""The bits of a tag of Protobuf that say how a field is stored, and what they are for texts."""
PROTOBUF_TAGS = bytes(code for code in range(32, 127) if code & WIRE_TYPE == OF_TEXTS)
"""Tags of texts that are letters."""
OTHER_TAGS = b"zZxU"
"""Those of marshal (``z``, ``Z``), of CBOR (``x``) and of pickles (``U``)."""
TAGS = re.escape(PROTOBUF_TAGS + OTHER_TAGS) + rb"\x00\n\x80-\xff"
FOLLOWING = frozenset(PROTOBUF_TAGS + OTHER_TAGS + b"\0\nN()i{[") | frozenset(range(0x80, 0x100))
"""First bytes of what may follow a text."""
BEGINS = (
    rb"[!-~](?=/|~/|[A-Za-z]:[\\/]|\\\\|AKIA|ASIA|hf_|npm_|gsk_|sk-|SG\.|eyJ|r8_|api_org_|ya29\.|S-1-5-)"
    rb"(?!(?<=:/)/)"
)
FIRST, LENGTH = pattern_of(BEGINS), pattern_of(rb"[" + TAGS + rb"]" + BEGINS)
"""A byte before text that cannot begin inside a word."""
CBOR = ord("x")
IN_CBOR = range(0x60, 0x7C)
"""First bytes of short texts."""
FEWEST = 6


def without_lengths(data: bytes) -> bytes:
    """Texts with NUL in place of bytes that are lengths, and of those after the texts; as many bytes."""
    changed: bytearray | None = None
    first = [0] if FIRST.match(data) else []
    for at in chain(first, (match.start() + 1 for match in LENGTH.finditer(data))):
        begin, end = at + 1, at + 1 + data[at]
        text = data[begin:end]
        following = data[end] if end < len(data) else 0
        is_tag = following in FOLLOWING or (at > 0 and data[at - 1] == CBOR and following in IN_CBOR)
        is_whole = len(text) == data[at] >= FEWEST and is_tag
        if is_whole and b"\0" not in text and b"\n" not in text:
            changed = changed or bytearray(data)
            changed[at] = 0
            changed[end : end + 1] = bytes(end < len(data))
    return data if changed is None else bytes(changed)
