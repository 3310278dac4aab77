"""Ways to write a text that programs have: each gives bytes that hold it."""

from __future__ import annotations

import base64
import html
import io
import json
import lzma
import pickle
import urllib.parse
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


def _array(text: str) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array(["x", text]))
    return out.getvalue()


def _deflated(text: str) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(b"so it goes\n%s\n" % text.encode()) + stream.flush()


def _letters(form: str) -> Callable[[str], bytes]:
    """A way that has an escape for each letter."""
    return lambda text: "".join(form % code for code in text.encode()).encode()


def _pickled(protocol: int) -> Callable[[str], bytes]:
    return lambda text: pickle.dumps({"n": 1.5, "a": [(1, text), "é"]}, protocol)


def _nested(protocol: int, outer: int) -> Callable[[str], bytes]:
    return lambda text: pickle.dumps([1, _pickled(protocol)(text)], outer)


def _old(text: str) -> bytes:
    """A pickle with texts as Python 2 wrote them."""
    data = text.encode()
    return b"(lp0\nS" + repr(text).encode() + b"\np1\naU%c" % len(data) + data + b"q\2a."


ENCODINGS: dict[str, Callable[[str], bytes]] = {
    **{f"pickle {protocol}": _pickled(protocol) for protocol in range(6)},
    **{f"pickle {one} in {other}": _nested(one, other) for one in range(6) for other in (0, 1, 2, 4)},
    "pickle of Python 2": _old,
    "a string alone, protocol 0": lambda text: pickle.dumps(text, 0),
    "pickle 1 in JSON": lambda text: json.dumps({"a": _pickled(1)(text).decode("latin-1")}).encode(),
    "pickle 0 in base64": lambda text: base64.b64encode(_pickled(0)(text)),
    "np.str_, protocol 2": lambda text: pickle.dumps(np.str_(text), 2),
    "np.str_, protocol 5": lambda text: pickle.dumps(np.str_(text), 5),
    "npy": _array,
    **{name: lambda text, name=name: text.encode(name) for name in ("utf-16-le", "utf-16-be")},  # type: ignore[misc]
    **{name: lambda text, name=name: text.encode(name) for name in ("utf-32-le", "utf-32-be")},  # type: ignore[misc]
    "percent": lambda text: urllib.parse.quote(text, safe="").encode(),
    "percent of all": _letters("%%%02x"),
    "percent twice": lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe="").encode(),
    "hexadecimal escapes": _letters("\\x%02x"),
    "octal escapes": _letters("\\%03o"),
    "escapes of Python": lambda text: "".join(f"\\u{ord(one):04x}" for one in text).encode(),
    "numbers of HTML": _letters("&#%d;"),
    "names of HTML": lambda text: html.escape(text).replace("/", "&sol;").replace(".", "&period;").encode(),
    "hex": lambda text: text.encode().hex().encode(),
    "base32": lambda text: base64.b32encode(text.encode()),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base85": lambda text: base64.b85encode(text.encode()),
    "Ascii85": lambda text: base64.a85encode(text.encode()),
    "base85 of a pickle": lambda text: base64.b85encode(_pickled(4)(text)),
    "deflate": _deflated,
    "lzma": lambda text: lzma.compress(text.encode() + b"\n", lzma.FORMAT_ALONE),
}
"""By what they are called."""
