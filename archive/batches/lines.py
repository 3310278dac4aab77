"""The lines of a manifest: an outcome ↔ one JSON object a line.

- ``input``: the input's path below the folder that was searched;
- ``verb`` and ``options``: what was asked, as the library's function takes it;
- ``outcome`` and ``reason``, as :class:`~archive.batches.outcome.OutcomeKind` lists them;
- ``sources`` and ``outputs``: the files that were read and written, each with its ``path`` from the
  manifest's folder, ``bytes`` and ``digest`` (blake2b of 16 bytes, in hex); none where nothing was written;
- ``clean``, only if it is false: something was left in the result that should not be there;
- ``archive_id``, and of a migration ``from``, the release that wrote the input, where they are known.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import escaped
from archive.base.urls import is_url, name_of
from archive.batches.places import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MANIFEST_NAME = "manifest.jsonl"
"""A manifest's name among companions, and how it ends beside a folder of results."""


class ManifestLine(NamedTuple):
    """A line about files that were written.

    Attributes:
        verb: what was done.
        options: with which options.
        sources: the files that were read, then.
        outputs: the files that were written, with their paths from the manifest's folder.
        clean: whether they hold nothing that should not be there.
    """

    verb: str
    options: Mapping[str, Any]
    sources: tuple[Fingerprint, ...]
    outputs: tuple[tuple[str, Fingerprint], ...]
    clean: bool = True


class Known(NamedTuple):
    """What a line tells of the targets of a job.

    Attributes:
        verb: what was done.
        options: with which options.
        sources: the files that were read, then.
        targets: the files that were written; None for a target of which nothing is told.
        is_whole: whether the line tells of no other files.
        clean: whether the targets hold nothing that should not be there.
    """

    verb: str
    options: Mapping[str, Any]
    sources: tuple[Fingerprint, ...]
    targets: tuple[Fingerprint | None, ...]
    is_whole: bool
    clean: bool = True


def is_manifest(name: str) -> bool:
    """Whether a file is a manifest, by its name."""
    return name == MANIFEST_NAME or name.endswith(f".{MANIFEST_NAME}")


def parsed(line: bytes) -> tuple[str, ManifestLine] | None:
    """The input and the facts of a line; None where it is broken, or nothing was written."""
    try:
        read = json.loads(line)
        facts = ManifestLine(
            str(read["verb"]),
            dict(read["options"]),
            tuple(_fingerprint(one) for one in read["sources"]),
            tuple((str(one["path"]), _fingerprint(one)) for one in read["outputs"]),
            read.get("clean") is not False,
        )
        return (str(read["input"]), facts) if facts.outputs else None
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):  # of whatever stands there
        return None


def _fingerprint(read: Mapping[str, Any]) -> Fingerprint:
    return Fingerprint(int(read["bytes"]), str(read["digest"]))


def known(line: ManifestLine, targets: Iterable[str], folder: str) -> Known:
    """What a line tells of targets.

    Args:
        line: the line.
        targets: the paths of the targets.
        folder: the manifest's; a URL ends with a slash.
    """
    outputs = dict(line.outputs)
    told = tuple(outputs.pop(path_from(folder, target), None) for target in targets)
    return Known(line.verb, line.options, line.sources, told, not outputs, line.clean)


def built(name: str, line: Mapping[str, object]) -> bytes:
    """A line about an input, with its end."""
    return json.dumps({"input": escaped(name), **line}, ensure_ascii=False).encode() + b"\n"


def files(paths: Iterable[str], fingerprints: Iterable[Fingerprint], folder: str) -> list[dict[str, object]]:
    """Files as a line has them; paths are those from a folder."""
    return [
        {"path": path_from(folder, path), "bytes": one.size, "digest": one.digest}
        for path, one in zip(paths, fingerprints, strict=False)  # of two targets one may not be written
    ]


def path_from(folder: str, path: str) -> str:
    """A path from a folder, as a line has it."""
    if is_url(path) or is_url(folder):
        return escaped(name_of(path).removeprefix(name_of(folder)))
    try:
        path = os.path.relpath(path, folder)
    except ValueError:  # of another drive
        path = os.path.abspath(path)  # noqa: PTH100 (links stay)
    return escaped(Path(path).as_posix())
