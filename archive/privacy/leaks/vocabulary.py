"""What reveals people and machines: the kinds of findings, and the words by which they are known.

This is the one vocabulary of ``leaks``, of ``redact``, and of its proof: what a path, a home, a user and a
name are, and which kinds are which. A path leads to a home, to temporary files, to packages, or to anything
else; a home is somebody's.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from archive.base.patterns import pattern_of

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

# --- kinds


class LeakKind(StrEnum):
    """What a text or a record of a model gives away."""

    HOME = "home path"
    TEMPORARY = "temporary path"
    PACKAGES = "site-packages path"
    DRIVE = "drive path"
    UNC = "network path"
    PATH = "other path"
    USER = "user name"
    HOST = "host name"
    EMAIL = "e-mail address"
    URL = "URL"
    KEY = "key"
    SOURCE = "source text"
    COMMENT = "comment"
    TIME = "time stamp"
    INPUTS = "sample inputs"
    EXTRA = "extra file"
    COMPANION = "companion"
    ROOT = "root folder"
    CLASS = "class name"
    ATTRIBUTE = "attribute name"
    GENERATED = "generated code"
    ID = "id"

    @property
    def counts(self) -> bool:
        """Whether findings of this kind make the exit status 1, unless kinds are asked for."""
        return self not in LISTED_ONLY

    @property
    def is_path(self) -> bool:
        """Whether findings of this kind are paths or URLs."""
        return self in PATHS or self is LeakKind.URL

    @property
    def remedy(self) -> str:
        """A sentence that says how such findings get out of a file that ``redact`` does not rewrite."""
        return REMEDIES[self]


LISTED_ONLY = {LeakKind.ROOT, LeakKind.CLASS, LeakKind.ATTRIBUTE, LeakKind.GENERATED, LeakKind.ID}
"""Kinds that nearly every model has and needs to load: they name neither person nor machine."""

PATHS = frozenset(
    {
        *(LeakKind.HOME, LeakKind.TEMPORARY, LeakKind.PACKAGES),
        *(LeakKind.DRIVE, LeakKind.UNC, LeakKind.PATH),
    }
)
NAMES = frozenset({LeakKind.USER, LeakKind.HOST})
"""Names of people and machines, which are looked for as words and parts of names."""
OTHERWISE = "save the model without it"
OF_THE_MODEL = "PyTorch needs it to load the model; a name of your own is renamed in the model's source"
REMEDIES = dict.fromkeys((*PATHS, LeakKind.EMAIL, LeakKind.URL, LeakKind.SOURCE, LeakKind.COMMENT), OTHERWISE)
REMEDIES |= dict.fromkeys(NAMES, "goes with the path or address that it is part of")
REMEDIES |= {
    LeakKind.KEY: "revoke it first; then save the model without it",
    LeakKind.TIME: "save the model with PyTorch 1.4 or later, which writes no times",
    LeakKind.INPUTS: "export the model without example inputs, or with made-up ones",
    LeakKind.EXTRA: "save the model without it in `_extra_files`",
    LeakKind.COMPANION: "`restore`, then `split`: the companion becomes a file of its own",
    LeakKind.ROOT: "PyTorch takes it from the file's name; save under another one",
    LeakKind.CLASS: OF_THE_MODEL,
    LeakKind.ATTRIBUTE: OF_THE_MODEL,
    LeakKind.GENERATED: "PyTorch runs it",
    LeakKind.ID: "`convert --canonical` renumbers ids of exported programs",
}


class Detection(NamedTuple):
    """What a detector finds in a text.

    Attributes:
        kind: of the finding.
        at: its first byte in the text.
        text: what stands there.
    """

    kind: LeakKind
    at: int
    text: bytes


# --- paths and homes

SHARED = rb"(?:var|usr|nfs|net|data|scratch|gpfs|lustre|export|work|shared|mnt|(?:mnt|cygdrive)/[a-z]|[a-z])/"
"""Folders at a root in which a folder of homes may lie."""
FOLDER = rb"[^/\x00-\x20\"'<>|:*?`\\,;(){}\[\]]++"


class HomeFolder(NamedTuple):
    """What a folder of homes may be called, and where its name is enough.

    Attributes:
        name: of the folder.
        is_numbered: whether a digit may follow: ``/home2``.
        at_root: whether it is one directly at a root: ``/home/ann``, but not ``/users/ann``, which is a route
            of many servers.
        in_shared: whether it is one in a folder of ``SHARED``: ``/nfs/users/ann``.
    """

    name: bytes
    is_numbered: bool = False
    at_root: bool = False
    in_shared: bool = False

    @property
    def pattern(self) -> bytes:
        """Matches the folder's name."""
        return self.name + rb"\d?" * self.is_numbered


HOME_FOLDERS = (
    HomeFolder(b"home", is_numbered=True, at_root=True, in_shared=True),
    HomeFolder(b"Users", at_root=True, in_shared=True),
    HomeFolder(b"users", in_shared=True),
    HomeFolder(b"homes", is_numbered=True),
    HomeFolder(b"Homes", is_numbered=True),
    HomeFolder(b"people"),
)
"""Every name of a folder of homes. The patterns below are made of it."""


def _any_of(folders: Iterable[HomeFolder]) -> bytes:
    return rb"(?:" + b"|".join(folder.pattern for folder in folders) + rb")"


ANY_HOMES = _any_of(HOME_FOLDERS)
"""A folder of homes, wherever it lies."""
HOMES_AT_ROOT = _any_of(folder for folder in HOME_FOLDERS if folder.at_root)
"""A folder of homes directly at a root. A path without a root leads home only if it begins with one: any
project may have folders with the other names."""
SURE_HOMES = (
    rb"(?:"
    + HOMES_AT_ROOT
    + rb"|"
    + SHARED
    + _any_of(folder for folder in HOME_FOLDERS if folder.in_shared)
    + rb")"
)
"""The way from a root to a folder of homes, where any name after it is somebody's."""
LIKELY_HOMES = (
    rb"(?!(?:api|rest|v\d+)/)" + FOLDER + rb"/(?:" + FOLDER + rb"/){0,2}?(?:" + ANY_HOMES + rb"|user/[a-z])"
)
"""The way from a root through one to three folders of any name to a folder of homes. A name after it is
somebody's only if more follows: ``/srv/people/ann`` may be a page, ``/srv/people/ann/net.py`` is a file."""
TEMPORARY = rb"(?:tmp|var/tmp|var/folders|private/tmp|private/var|dev/shm|scratch)"
MACHINES = pattern_of(
    rb"/(?:opt|mnt|media|data|srv|lustre|gpfs|nfs|afs|fsx|efs|workspaces?|app|Volumes|content|kaggle|dbfs|projects?)/"
)
"""Roots of what people and companies put on their machines."""
IN_HOMES = rb"/(?:(?:[a-z]|users)/(?=[^/]+/))?"
"""What stands between homes and one of them: nothing, or a folder of a letter, or ``users``."""
HOME_OF = pattern_of(
    rb"(?:/" + SURE_HOMES + IN_HOMES + rb"|[A-Za-z]:[\\/]+(?i:Users|Documents and Settings)[\\/]+"
    rb"|\\\\[^\\]+\\(?:[^\\]+\\)?(?i:home|Users|Documents and Settings)\\"
    rb"|//[^/]+/(?:[^/]+/)?(?i:home|Users)/"
    rb"|/" + LIKELY_HOMES + IN_HOMES + rb"(?=[^/]+/))([^/\\]+)"
    rb"|/(?=root/)"
)
"""Begins a path in somebody's home, on any system. The group is the user's name, which root's home lacks."""
MODULE_IN_HOME = pattern_of(rb"[/!]" + HOMES_AT_ROOT + rb"/")
BEFORE_FOLDER = pattern_of(rb"[/!]")
"""What stands before each folder in the name of a record; ``!`` stands between a zip and a record in it."""
MOST_HOMES = 4
"""Homes of a record's name that are listed: each takes a path as long as the name."""
IN_TEMPORARY = pattern_of(rb"/" + TEMPORARY + rb"/|[\\/](?:Temp|TEMP|tmp)[\\/]")
PACKAGES = rb"(?:site|dist)-packages"
IN_PACKAGES = pattern_of(rb"[\\/]" + PACKAGES + rb"(?:[\\/]|$)")
NOBODY = frozenset(
    b"Default Public Shared Administrator runneradmin runner ubuntu user jovyan circleci ec2-user vsts "
    b"jenkins root conda builder pytorch nobody linuxbrew vscode codespace gitpod azureuser sagemaker-user "
    b"vagrant centos debian airflow".split()
)
"""Accounts that a machine or a service comes with."""
USERS = (
    *(b"LOGNAME", b"USERNAME", b"USER", b"SLURM_JOB_USER", b"SUDO_USER", b"username", b"user_name", b"user"),
    *(b"author", b"owner", b"created_by", b"creator", b"submitted_by", b"uploaded_by", b"login"),
)
HOSTS = (
    *(b"HOSTNAME", b"COMPUTERNAME", b"USERDOMAIN", b"SLURMD_NODENAME", b"hostname", b"host_name", b"host"),
    *(b"nodename", b"node_name", b"node", b"machine_name"),
    *(b"MASTER_ADDR", b"master_addr", b"SLURM_NODELIST", b"SLURM_JOB_NODELIST"),
)
"""Names of entries that name users and hosts."""
SHORTEST_NAME = 3
"""Bytes of the shortest name that reveals somebody by itself."""
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
"""Words of PyTorch and of its users that are names of accounts, too: by themselves, they reveal nobody."""
ENDING = pattern_of(rb"\.[A-Za-z][A-Za-z0-9_+]{0,5}(?:\.\d+)*")
PARTS = pattern_of(
    rb"\.(?:py|ipynb|c|cc|cpp|cxx|cu|h|hpp|so|pt|pth|pt2|ptl|pte|ckpt|safetensors|onnx|npy|npz|ya?ml|csv|log|pkl)\Z"
)
"""Endings of files that models are made of."""
FEWEST_FOLDERS = 3


def home_of(path: bytes) -> tuple[int, bytes] | None:
    """Where a path leaves the home that it begins in, and that home's user; None for others.

    The name is ``root`` for the superuser, whose home has none.
    """
    home = HOME_OF.match(path)
    if home is None:
        return None
    user, end = (home[1], home.end(1)) if home[1] is not None else (b"root", len(b"/root"))
    return end + 1, user


def homes_in_name(record: bytes, *, is_module: bool) -> list[bytes]:
    """The paths in homes that a record's name stands for. Zips take the root from the names of files.

    If several paths lead into one home, the shortest counts. A folder ``root`` may be any tree's.

    Args:
        record: its name, with that of the zip that it is in.
        is_module: whether its folders are Python packages, which have no root, either.
    """
    path = (b"/" + record).replace(b"!", b"/")
    starts: dict[int, int] = {}
    for begin in (MODULE_IN_HOME if is_module else BEFORE_FOLDER).finditer(b"/" + record):
        home = HOME_OF.match(path, begin.start())
        if home is not None and home[1] is not None and home.end() + 1 < len(path):
            if home.end() not in starts and len(starts) == MOST_HOMES:
                break
            starts[home.end()] = begin.start()
    return [path[start:] for start in starts.values()]


def is_telling(path: bytes) -> bool:
    """Whether a path that begins with ``/`` is a machine's, not a route or a part of a sentence."""
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
    """A path up to the first byte that isn't text: instructions of a processor have slashes, too."""
    if path.isascii():
        return path
    text = path.decode(errors="surrogateescape")
    odd = next((at for at, character in enumerate(text) if not character.isprintable()), len(text))
    return path if odd == len(text) else text[:odd].rstrip("/").encode()


def of_path(at: int, path: bytes, other: LeakKind) -> Iterator[Detection]:
    """The kind of a path, and the user whose home it is in.

    Args:
        at: its first byte.
        path: as it stands there.
        other: the kind of a path that leads to no place that is known.
    """
    home = home_of(path)
    if home:
        yield Detection(LeakKind.HOME, at, path)
    elif IN_TEMPORARY.search(path):
        yield Detection(LeakKind.TEMPORARY, at, path)
    elif IN_PACKAGES.search(path):
        yield Detection(LeakKind.PACKAGES, at, path)
    else:
        yield Detection(other, at, path)
    if home and home[1] not in NOBODY:
        end, user = home
        yield Detection(LeakKind.USER, at + end - 1 - len(user), user)


def is_word_of_code(name: bytes) -> bool:
    """Whether a name of a user or host is a word that models have anyway, or so short that they may."""
    return len(name) < SHORTEST_NAME or name.lower() in WORDS_OF_CODE


# --- search


def places_of(data: bytes, mark: bytes) -> Iterator[int]:
    """Where a mark stands: bytes are found much sooner than patterns."""
    at = data.find(mark)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)


def matched(data: bytes, mark: bytes, before: int, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """What matches around a mark, and begins ``before`` bytes before it; matches do not overlap."""
    at = data.find(mark)
    while at >= 0:
        match = pattern.match(data, at - before) if at >= before else None
        if match is not None:
            yield match
        at = data.find(mark, max(match.end() if match else 0, at + 1))
