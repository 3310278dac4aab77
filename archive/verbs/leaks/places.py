"""Where a path leads: home, to what is temporary, to packages; and whose home that is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.verbs.leaks.kinds import LeakKind

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED = rb"(?:var|usr|nfs|net|data|scratch|gpfs|lustre|export|work|shared|mnt|(?:mnt|cygdrive)/[a-z]|[a-z])/"
"""Folders in which those of people may be."""
OF_PEOPLE = rb"(?:home\d?|Users|" + SHARED + rb"(?:home\d?|[Uu]sers))"
HOMES = rb"(?:root|" + OF_PEOPLE + rb")"
TEMPORARY = rb"(?:tmp|var/tmp|var/folders|private/tmp|private/var|dev/shm|scratch)"
MACHINES = re.compile(
    rb"/(?:opt|mnt|media|data|srv|lustre|gpfs|nfs|afs|fsx|efs|workspaces?|app|Volumes|content|kaggle|dbfs|projects?)/"
)
"""Roots of what people and companies put on their machines."""
HOME_OF = re.compile(
    rb"(?:/" + OF_PEOPLE + rb"/|[A-Za-z]:[\\/]+(?i:Users|Documents and Settings)[\\/]+"
    rb"|\\\\[^\\]+\\(?:[^\\]+\\)?(?:home|Users)\\)([^/\\]+)"
)
ROOTS_HOME = b"/root/"
IN_TEMPORARY = re.compile(rb"/" + TEMPORARY + rb"/|[\\/](?:Temp|TEMP|tmp)[\\/]")
IN_PACKAGES = re.compile(rb"[\\/](?:site|dist)-packages(?:[\\/]|$)")
NOBODY = {
    *("Default", "Public", "Shared", "Administrator", "runneradmin", "runner", "ubuntu", "user", "jovyan"),
    *(
        "circleci",
        "ec2-user",
        "vsts",
        "jenkins",
        "root",
        "conda",
        "builder",
        "pytorch",
        "nobody",
        "linuxbrew",
    ),
    *(
        "vscode",
        "codespace",
        "gitpod",
        "azureuser",
        "sagemaker-user",
        "vagrant",
        "centos",
        "debian",
        "airflow",
    ),
}
"""Accounts that a machine or a service comes with."""
ENDING = re.compile(rb"\.[A-Za-z][A-Za-z0-9_+]{0,5}(?:\.\d+)*")
PARTS = re.compile(
    rb"\.(?:py|ipynb|c|cc|cpp|cxx|cu|h|hpp|so|pt|pth|pt2|ptl|pte|ckpt|safetensors|onnx|npy|npz|ya?ml|csv|log|pkl)\Z"
)
"""Endings of files that models are made of."""
FEWEST_FOLDERS = 3


class Found(NamedTuple):
    """What a detector finds in a text.

    Attributes:
        kind: of the finding.
        at: its first byte in the text.
        text: what stands there.
    """

    kind: LeakKind
    at: int
    text: bytes


def is_telling(path: bytes) -> bool:
    """Whether a path that begins with ``/`` is one of a machine, not a route or a part of a sentence."""
    folders, _, name = path.rpartition(b"/")
    depth = folders.count(b"/")
    ending = PARTS if depth < FEWEST_FOLDERS - 1 else ENDING
    return (
        depth >= FEWEST_FOLDERS
        or bool(ending.search(name))
        or MACHINES.match(path) is not None
        or IN_PACKAGES.search(path) is not None
    )


def named(at: int, path: bytes, other: LeakKind) -> Iterator[Found]:
    """A path by its kind, and the user whose home it is in.

    Args:
        at: its first byte.
        path: as it stands there.
        other: the kind of a path that leads to no place that is known.
    """
    home = HOME_OF.match(path)
    if home or path.startswith(ROOTS_HOME):
        yield Found(LeakKind.HOME, at, path)
    elif IN_TEMPORARY.search(path):
        yield Found(LeakKind.TEMPORARY, at, path)
    elif IN_PACKAGES.search(path):
        yield Found(LeakKind.PACKAGES, at, path)
    else:
        yield Found(other, at, path)
    if home and home[1].decode(errors="replace") not in NOBODY:
        yield Found(LeakKind.USER, at + home.start(1), home[1])


def matched(data: bytes, mark: bytes, before: int, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """What matches around a mark: bytes are found much sooner than patterns.

    Args:
        data: a text.
        mark: what each match has.
        before: bytes of a match before the mark.
        pattern: what has to match.
    """
    at = data.find(mark)
    while at >= 0:
        one = pattern.match(data, at - before) if at >= before else None
        if one is not None:
            yield one
        at = data.find(mark, max(one.end() if one else 0, at + 1))
