"""What paths, homes and users are: the words of ``leaks``, of ``redact``, and of its proof.

A path leads home, to what is temporary, to packages, or elsewhere; a home is somebody's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.privacy.leaks.kinds import LeakKind

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED = rb"(?:var|usr|nfs|net|data|scratch|gpfs|lustre|export|work|shared|mnt|(?:mnt|cygdrive)/[a-z]|[a-z])/"
"""Folders in which those of people may be."""
OF_PEOPLE = rb"(?:home\d?|Users|" + SHARED + rb"(?:home\d?|[Uu]sers))"
FOLDER = rb"[^/\x00-\x20\"'<>|:*?`\\,;(){}\[\]]++"
OF_MANY = (
    rb"(?!(?:api|rest|v\d+)/)"
    + FOLDER
    + rb"/(?:"
    + FOLDER
    + rb"/){0,2}?(?:homes?\d?|Users|users|people|user/[a-z])"
)
"""The same where more has to follow than a name: the folder of homes may lie in others, of any name."""
HOMES = rb"(?:root|" + OF_PEOPLE + rb")"
TEMPORARY = rb"(?:tmp|var/tmp|var/folders|private/tmp|private/var|dev/shm|scratch)"
MACHINES = re.compile(
    rb"/(?:opt|mnt|media|data|srv|lustre|gpfs|nfs|afs|fsx|efs|workspaces?|app|Volumes|content|kaggle|dbfs|projects?)/"
)
"""Roots of what people and companies put on their machines."""
HOME_OF = re.compile(
    rb"(?:/" + OF_PEOPLE + rb"/(?:[a-z]/(?=[^/]+/))?|[A-Za-z]:[\\/]+(?i:Users|Documents and Settings)[\\/]+"
    rb"|\\\\[^\\]+\\(?:[^\\]+\\)?(?i:home|Users|Documents and Settings)\\"
    rb"|//[^/]+/(?:[^/]+/)?(?i:home|Users)/"
    rb"|/" + OF_MANY + rb"/(?=[^/]+/))([^/\\]+)"
    rb"|/(?=root/)"
)
"""Begins a path in somebody's home; the last part is whose it is, unless somebody is root."""
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
USERS = (
    *(b"LOGNAME", b"USERNAME", b"USER", b"SLURM_JOB_USER", b"SUDO_USER", b"username", b"user_name", b"user"),
    *(b"author", b"owner", b"created_by", b"creator", b"submitted_by", b"uploaded_by", b"login"),
)
HOSTS = (
    *(b"HOSTNAME", b"COMPUTERNAME", b"USERDOMAIN", b"SLURMD_NODENAME", b"hostname", b"host_name", b"host"),
    *(b"nodename", b"node_name", b"node", b"machine_name"),
)
"""What entries are called that name users and hosts."""
SHORTEST_NAME = 3
"""Bytes of the shortest name that tells of somebody where it stands alone."""
WORDS_OF_CODE = frozenset(
    b"abs add admin all any app apps art bias box build cat code conv core cos data debug demo dev div "
    b"dot exp eye grad grant home host index input lab lib linear local log main mark mask math max "
    b"mean min model models mul name net nets neg nn norm ops out output pad path pow prod rand res "
    b"root run runs self server sin size sort src std sub sum tan task tasks temp test tests tmp topk "
    b"torch train trainer unit user users util utils val values var view weight work worker "
    b"item items edge edges graph movie product feature features embedding bert gpt cuda cpu gpu bool int "
    b"float tensor double long half string text token tokens image label labels class default auto meta "
    b"master".split()
)
"""Words of PyTorch and of its users, which are names of accounts, too: they tell of nobody where they stand
alone."""
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


def home_of(path: bytes) -> tuple[int, bytes] | None:
    """Where a path leaves the home that it begins in, and whose that is; None for others.

    The name is ``root`` for the superuser's, whose home has none.
    """
    home = HOME_OF.match(path)
    if home is None:
        return None
    user, end = (home[1], home.end(1)) if home[1] is not None else (b"root", len(b"/root"))
    return end + 1, user


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


def textual(path: bytes) -> bytes:
    """A path up to the first byte that is no text: instructions of a processor have slashes, too."""
    if path.isascii():
        return path
    text = path.decode(errors="surrogateescape")
    odd = next((at for at, one in enumerate(text) if not one.isprintable()), len(text))
    return path if odd == len(text) else text[:odd].rstrip("/").encode()


def named(at: int, path: bytes, other: LeakKind) -> Iterator[Found]:
    """A path by its kind, and the user whose home it is in.

    Args:
        at: its first byte.
        path: as it stands there.
        other: the kind of a path that leads to no place that is known.
    """
    home = home_of(path)
    if home:
        yield Found(LeakKind.HOME, at, path)
    elif IN_TEMPORARY.search(path):
        yield Found(LeakKind.TEMPORARY, at, path)
    elif IN_PACKAGES.search(path):
        yield Found(LeakKind.PACKAGES, at, path)
    else:
        yield Found(other, at, path)
    if home and is_somebody(home[1]):
        end, user = home
        yield Found(LeakKind.USER, at + end - 1 - len(user), user)


def is_somebody(name: bytes) -> bool:
    """Whether a name of a user is not one that machines come with."""
    return name.decode(errors="replace") not in NOBODY


def is_word_of_code(name: bytes) -> bool:
    """Whether a name of a user or host is a word that models have anyway, or so short that they may."""
    return len(name) < SHORTEST_NAME or name.lower() in WORDS_OF_CODE


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
