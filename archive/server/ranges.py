"""Conditions and ranges of requests for one representation: RFC 9110, sections 13 and 14."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
TAG = re.compile(r'(?:W/)?("[^"]*")')


@dataclass(frozen=True, slots=True)
class Representation:
    """Bytes with an entity tag.

    Attributes:
        read: reads them, where they are needed.
        size: how many there are.
        tag: their strong entity tag, with its quotes.
        headers: further headers of the answer.
        media_type: of the bytes.
    """

    read: Callable[[], bytes]
    size: int
    tag: str
    headers: Mapping[str, str]
    media_type: str

    def answer(self, request: Request) -> Response:
        """The answer with the bytes, or the part that is asked for, or none if the client has them."""
        asked = request.headers
        headers = {"ETag": self.tag, "Accept-Ranges": "bytes", **self.headers}
        if _has(asked.get("if-none-match"), self.tag):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        if request.method == "HEAD":
            headers["Content-Length"] = str(self.size)
            return Response(headers=headers, media_type=self.media_type)
        part = None
        if asked.get("if-range", self.tag) == self.tag:  # a weak tag or a date never fits
            part = part_of(asked.get("range", ""), self.size)
        if part is None:
            return Response(self.read(), headers=headers, media_type=self.media_type)
        if not part:
            headers["Content-Range"] = f"bytes */{self.size}"
            return Response(status_code=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers=headers)
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{self.size}"
        data = self.read()[part.start : part.stop]
        return Response(data, HTTPStatus.PARTIAL_CONTENT, headers, self.media_type)


def tag_of(data: bytes) -> str:
    """The strong entity tag of bytes."""
    return f'"{blake2b(data, digest_size=16).hexdigest()}"'


def _has(condition: str | None, tag: str) -> bool:
    """Whether a client has what a tag stands for; weak and strong tags compare alike here."""
    if condition is None:
        return False
    return condition.strip() == "*" or tag in TAG.findall(condition)


def part_of(asked: str, size: int) -> range | None:
    """The bytes that are asked for; none of them if there are no such bytes.

    Returns:
        None: all bytes, for no range is asked for, or several are, or what is asked for is none.
    """
    found = RANGE.fullmatch(asked.strip())
    if not found or found[1] == found[2] == "":
        return None
    if not found[1]:
        return range(max(0, size - int(found[2])), size)
    first, last = int(found[1]), int(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    return range(first, min(last + 1, size))
