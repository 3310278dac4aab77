"""Requests to a server, each bounded in time and size, and tried again where the server asks for it."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request

from archive.base.errors import ArchiveError, in_file, one_line
from archive.base.json_values import parsed_json
from archive.base.urls import shown
from archive.store.client.budget import SECONDS_OF_SILENCE, Budget
from archive.store.client.transport import PIECE, opener_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

SECONDS = 300.0
"""Seconds that a request may take: its tries, redirections and answers together."""
TRIES = 4
LONGEST_WAIT = 10.0
"""Seconds between two tries."""
MOST_OF_PROBLEM = 1 << 16
"""Bytes of a refusal that are read."""
MOST_OF_FACTS = 1_000
"""Values of a refusal."""
BUSY = 503
NOT_MODIFIED = 304
UNAUTHORIZED = 401


class Reply(NamedTuple):
    """An answer.

    Attributes:
        status: of HTTP.
        data: its body.
    """

    status: int
    data: bytes


class Connection:
    """Asks a server.

    Args:
        url: its address; what stands behind the host is the beginning of all paths.

    Attributes:
        name: the address for messages, without what is secret in it.

    Raises:
        ArchiveError: it is no address of HTTP.
    """

    def __init__(self, url: str) -> None:
        self.name = shown(url).rstrip("/")
        try:
            parts = urlsplit(url)
            _ = parts.port  # a number, or none
        except ValueError as error:
            raise ArchiveError(f"is no address: {error}", file=self.name) from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ArchiveError(expected="an address like http://host:8080", found=self.name)
        if parts.username is not None:
            raise ArchiveError("an address has no place for users and passwords", file=self.name)
        self._base = url.rstrip("/")

    def ask(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        most: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:
        """The answer to a request.

        Args:
            path: behind the address.
            query: the parameters.
            most: bytes that it may have.
            headers: of the request.
            body: is put, where it is given.

        Raises:
            ArchiveError: the server cannot be reached, refuses, is too slow, or says too much.
        """
        url = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        method = "GET" if body is None else "PUT"
        request = Request(url, body, dict(headers or {}), method=method)  # noqa: S310 (http and https alone)
        budget = Budget(SECONDS)
        for left in reversed(range(TRIES)):
            try:
                return self._reply(request, most, budget)
            except _AgainError as again:
                if not left:
                    raise ArchiveError(again.why, file=self.name) from None
                with in_file(self.name):
                    budget.wait(again.seconds)
        raise AssertionError  # the last try returns or raises

    def _reply(self, request: Request, most: int, budget: Budget) -> Reply:
        """The answer to one try.

        Raises:
            _AgainError: another try may have another answer.
            ArchiveError: none will.
        """
        try:
            with in_file(self.name), opener_of(budget).open(request, timeout=SECONDS_OF_SILENCE) as found:
                return Reply(found.status, self._body(found, most, budget))
        except HTTPError as error:
            with error, in_file(self.name):
                return self._refused(error)
        # A ValueError is of what the server says: a redirection to no address, a chunk of -5 bytes.
        except (URLError, http.client.HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            why = f"cannot be reached: {one_line(str(reason) or type(reason).__name__)}"
            raise _AgainError(why, 1.0) from None

    def _refused(self, error: HTTPError) -> Reply:
        """What a refusal says; that nothing has changed is none."""
        if error.code == NOT_MODIFIED:
            return Reply(NOT_MODIFIED, b"")
        why = f"{error.code}: {_detail(error)}"
        if error.code == BUSY:
            raise _AgainError(why, _seconds(error.headers.get("Retry-After", "")))
        raise ServerRefusal(error.code, why, self.name)

    def _body(self, found: http.client.HTTPResponse, most: int, budget: Budget) -> bytes:
        """A body, read to its end.

        Raises:
            ArchiveError: it is too long, or comes too slowly.
            HTTPException: it is cut.
        """
        data = bytearray()
        while piece := found.read(PIECE):
            data += piece
            budget.give(len(piece))
            if len(data) > most:
                raise ArchiveError(f"an answer of more than {most:,} bytes", file=self.name)
        if found.length:  # what is still to come after the end
            raise http.client.IncompleteRead(b"", found.length)
        return bytes(data)


class ServerRefusal(ArchiveError):  # noqa: N818 (what the server says)
    """A server's refusal.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, why: str, file: str) -> None:
        super().__init__(why, file=file)
        self.status = status


class _AgainError(Exception):
    """A try failed; another one may not."""

    def __init__(self, why: str, seconds: float) -> None:
        super().__init__(why, seconds)
        self.why = why
        self.seconds = seconds


def _detail(error: IO[bytes]) -> str:
    """The sentence of a refusal; its title where it is no problem of RFC 9457."""
    try:
        data = error.read(MOST_OF_PROBLEM)
    except (ValueError, OSError, http.client.HTTPException):
        data = b""
    try:
        detail = parsed_json(data, MOST_OF_FACTS)["detail"]
    except (ArchiveError, LookupError, TypeError):
        detail = getattr(error, "reason", "")
    return one_line(shown(str(detail)))


def _seconds(retry_after: str) -> float:
    """Seconds to wait."""
    return min(float(retry_after), LONGEST_WAIT) if retry_after.isdecimal() else 1.0
