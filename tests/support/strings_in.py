"""All bytes of a file, as stored and as ``zipfile`` inflates them: written apart from the code under test."""

from __future__ import annotations

import io
import zipfile


def everything_in(data: bytes) -> list[bytes]:
    """The file, and every record of it and of zips inside of it."""
    found = [data]
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            for name in opened.namelist():
                found += everything_in(opened.read(name))
    return found


def holds(data: bytes, text: str) -> bool:
    """Whether a text stands anywhere: in UTF-8, in UTF-16, with its backslashes and quotes escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    forms = {one.encode(codec) for one in (text, escaped) for codec in ("utf-8", "utf-16-le", "utf-16-be")}
    return any(form in piece for piece in everything_in(data) for form in forms)
