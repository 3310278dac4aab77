"""An S3 store of this machine, and the same of nothing but memory."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock
from urllib.request import urlopen

import fsspec
import s3fs
from fsspec.config import conf
from moto.server import ThreadedMotoServer

if TYPE_CHECKING:
    from collections.abc import Generator

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
BUCKET = "s3://models"


@contextmanager
def s3() -> Generator[s3fs.S3FileSystem]:
    """A store with the bucket ``models``, which ``s3://`` leads to for the time of the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    urlopen(f"{url}/moto-api/reset", data=b"").close()  # noqa: S310 (what an earlier store of this process held)
    try:
        environment = KEYS | {"AWS_ENDPOINT_URL": url}  # for processes of their own
        with mock.patch.dict(os.environ, environment), mock.patch.dict(conf, {"s3": {"endpoint_url": url}}):
            store = fsspec.filesystem("s3")
            store.mkdir("models")
            yield store
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()
