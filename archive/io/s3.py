"""Requests to S3 that are read piece by piece, since pieces show that it is alive: ranges and lists.

Each answer must name the version that was opened. An answer that breaks off is requested again, as often as
s3fs tries. Lists come in pages of a thousand; a list without end is not read to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import CHANGED, ArchiveError
from archive.io.patience import Patience
from archive.io.ranged import BLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping

BYTES_LISTED = 512
"""Bytes of an object in a list, about."""
MOST_FILES = 1 << 20
"""Most files of a list."""
TOO_MANY = f"more than {MOST_FILES:,} files"


class S3Object:
    """An object, by what S3 says of it, the ETag included."""

    def __init__(self, fs: Any, path: str, facts: Mapping[str, Any], name: str) -> None:  # noqa: ANN401 (of s3fs)
        self._fs, self._name = fs, name
        bucket, key, _ = fs.split_path(path)
        self._etag, self._size = facts["ETag"], facts["size"]
        self._wanted = {"Bucket": bucket, "Key": key}
        if fs.version_aware and facts.get("VersionId"):
            self._wanted["VersionId"] = facts["VersionId"]

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, as far as the answer has them."""
        from s3fs.core import _error_wrapper  # noqa: PLC0415 (s3fs is optional, and has no public name for it)

        patience = Patience(self._fs)
        data: bytes = patience.run(
            _error_wrapper, self._range, args=(start, stop, patience), retries=self._fs.retries
        )
        return data

    async def _range(self, start: int, stop: int, patience: Patience) -> bytes:
        span = f"bytes={start}-{stop - 1}"
        answer = await self._fs._call_s3("get_object", Range=span, **self._wanted)  # noqa: SLF001 (as s3fs does)
        async with answer["Body"] as body:
            total = answer.get("ContentRange", "").rpartition("/")[2]
            if answer.get("ETag") != self._etag or total not in {"", "*", str(self._size)}:
                raise ArchiveError(CHANGED, file=self._name)
            return await patience.gathered(body.iter_chunks(BLOCK), stop - start, self._name)


def files_below(fs: Any, path: str, depth: int | None, name: str) -> dict[str, dict[str, Any]]:  # noqa: ANN401 (of s3fs)
    """The objects below a folder, by their paths, with what the bucket says of them."""
    listed: list[dict[str, Any]] = []

    async def list_folder(folder: str, patience: Patience) -> None:
        bucket, key, _ = fs.split_path(folder)
        prefix, delimiter = f"{key.rstrip('/')}/" if key else "", "" if depth is None else "/"
        async for facts in fs._iterdir(bucket, delimiter=delimiter, prefix=prefix):  # noqa: SLF001 (as s3fs does)
            listed.append(facts)
            if len(listed) > MOST_FILES:
                raise ArchiveError(TOO_MANY, file=name)
            patience.give(BYTES_LISTED)

    folders = [path]
    for _ in range(depth or 1):
        start = len(listed)
        for folder in folders:
            patience = Patience(fs)
            patience.run(list_folder, folder, patience)
        folders = [facts["name"] for facts in listed[start:] if facts["type"] == "directory"]
    return {facts["name"]: facts for facts in listed if facts["type"] != "directory"}
