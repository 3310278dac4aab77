"""A server whose answers are bytes as they stand, and may end in silence, or never."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING
from unittest import mock

from fsspec.config import conf
from s3fs import S3FileSystem

from tests.support.object_store import BUCKET, KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAUSE = 0.01
"""Seconds between two bytes."""


def http_answer(status: int, body: bytes = b"", *, length: int | None = None, **headers: str) -> bytes:
    """An answer of HTTP.

    Args:
        status: as HTTP numbers it.
        body: its bytes.
        length: of the body, as the answer tells it.
        headers: others; an underscore is a hyphen.
    """
    told = {"Content-Length": str(len(body) if length is None else length), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body


@contextmanager
def stalling(answer: Callable[[str], bytes], *, drips: bool = False, closes: bool = False) -> Iterator[str]:
    """A server that waits behind each answer, for the rest of which the client may wait, too.

    Args:
        answer: the method of a request → its answer, or the beginning of one.
        drips: whether single bytes follow, for as long as the client waits; or else nothing.
        closes: whether the connection ends with the answer.

    Yields:
        Its address.
    """
    ended = Event()
    clients: list[tuple[socket.socket, Thread]] = []

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError):  # the client left
            while asked := client.recv(1 << 16):
                client.sendall(answer(asked.partition(b" ")[0].decode()))
                while drips and not ended.wait(PAUSE):
                    client.sendall(b"x")
                if closes:
                    return

    def accept() -> None:
        while not ended.is_set():
            client, _ = listening.accept()
            clients.append((client, Thread(target=serve, args=(client,))))
            clients[-1][1].start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        accepting = Thread(target=accept)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{address[1]}"
        finally:
            ended.set()
            socket.create_connection(address).close()
            accepting.join()
            for client, thread in clients:
                with suppress(OSError):  # it has left
                    client.shutdown(socket.SHUT_RDWR)
                thread.join()


@contextmanager
def stalling_bucket(
    answer: Callable[[str], bytes], *, drips: bool = False, closes: bool = False
) -> Iterator[str]:
    """The same as a server of S3: the URL of its bucket."""
    with stalling(answer, drips=drips, closes=closes) as url:
        environment = mock.patch.dict(os.environ, KEYS | {"AWS_ENDPOINT_URL": url})
        with environment, mock.patch.dict(conf, {"s3": {"endpoint_url": url}}):
            try:
                yield BUCKET
            finally:
                S3FileSystem.clear_instance_cache()
