"""Fields and files of forms as browsers send them.

They come as ``multipart/form-data`` (RFC 7578) or ``application/x-www-form-urlencoded``. Strangers write
them: a body has few fields, and what does not follow the forms is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from archive.base.errors import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

MULTIPART, URLENCODED = "multipart/form-data", "application/x-www-form-urlencoded"
MOST_FIELDS = 16
LONGEST_HEAD = 4096
"""Bytes of the headers of a field."""
BOUNDARY = re.compile(r'(?i);\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))')
NAME = re.compile(rb'(?i);\s*name="([^"]*)"')
FILE_NAME = re.compile(rb'(?i);\s*filename="([^"]*)"')


class FormError(Exception):
    """A body that isn't a form."""


class FormField(NamedTuple):
    """A field of a form; ``file`` is the name of its file without folders, or ""."""

    name: str
    file: str
    value: bytes


def fields_of(body: bytes, content_type: str, known: Sequence[str]) -> dict[str, FormField]:
    """The fields of a form by their names, which are among those that are known, and each there once."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == URLENCODED:
        fields = _urlencoded(body)
    elif kind == MULTIPART:
        fields = _multipart(body, content_type)
    else:
        raise FormError("a form is wanted: multipart/form-data or application/x-www-form-urlencoded")
    by_name = {field.name: field for field in fields}
    if unknown := [name for name in by_name if name not in known]:
        raise FormError(f"unknown field {shown(unknown[0])}; available: {', '.join(known)}")
    if len(by_name) < len(fields):
        raise FormError("a field of the form is given twice")
    return by_name


def _urlencoded(body: bytes) -> list[FormField]:
    pairs = body.split(b"&", MOST_FIELDS)
    if len(pairs) > MOST_FIELDS:
        raise FormError(f"a form has at most {MOST_FIELDS} fields")
    fields = []
    for pair in filter(None, pairs):
        name, _, value = (unquote_to_bytes(part) for part in pair.replace(b"+", b" ").partition(b"="))
        fields.append(FormField(_text(name), "", _with_newlines(value)))
    return fields


def _multipart(body: bytes, content_type: str) -> list[FormField]:
    found = BOUNDARY.search(content_type)
    if found is None:
        raise FormError("multipart/form-data without its boundary")
    limit = b"\r\n--" + (found[1] or found[2]).encode("latin-1", "replace")
    parts = (b"\r\n" + body).split(limit, MOST_FIELDS + 1)[1:]
    fields: list[FormField] = []
    for part in parts:
        if part.startswith(b"--"):
            return fields
        head, gap, value = part.partition(b"\r\n\r\n")
        name = NAME.search(head)
        if not gap or len(head) > LONGEST_HEAD:
            raise FormError(f"a field of a form has no end of its headers within {LONGEST_HEAD:,} bytes")
        if name is None:
            raise FormError("a field of a form has no name")
        file = FILE_NAME.search(head)
        base = re.split(rb"[/\\]", file[1])[-1] if file else b""
        fields.append(FormField(_text(name[1]), _text(base), value if file else _with_newlines(value)))
    raise FormError(f"a form that does not end, or has more than {MOST_FIELDS} fields")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _with_newlines(value: bytes) -> bytes:
    """A typed text: a browser sends each line end as two characters."""
    return value.replace(b"\r\n", b"\n")
