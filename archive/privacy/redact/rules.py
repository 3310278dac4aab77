"""The rules for rewriting an archive: what paths, lines, names, ids and dates become."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, get_args

from archive.base.errors import ArchiveError, shown
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.sites import NO_FILE, SEPARATOR, last_part
from archive.formats.record_kinds import UNNAMED_ROOT
from archive.privacy.leaks.vocabulary import PACKAGES, home_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

PathChoice = Literal["keep", "relative", "basename", "none"]
SourceChoice = Literal["keep", "lines", "none"]
NameChoice = Literal["keep", "hash"]
TimeChoice = Literal["none", "keep"]
IdChoice = Literal["keep", "anew"]
Preset = Literal["publish", "vendor"]
CHOICES: dict[str, tuple[str, ...]] = {
    "paths": get_args(PathChoice),
    "source": get_args(SourceChoice),
    "names": get_args(NameChoice),
    "times": get_args(TimeChoice),
    "ids": get_args(IdChoice),
}
"""What may be chosen; the first of each is the default."""
FLAGS = {"times": "time"}
"""Options of the command with other names."""
PRESETS: dict[str, dict[str, str | bool]] = {
    "publish": {
        "paths": "basename",
        "source": "none",
        "ids": "anew",
        "inputs": False,
        "extra": False,
        "people": True,
    },
    "vendor": {"paths": "relative", "source": "lines", "inputs": False, "people": True},
}
"""Choices by who gets the file: everybody, or somebody who is to explain its failures."""

OPTIONS = "--for, --map, --paths, --source, --names, --ids, --no-inputs or --no-extra"
"""Options that take something out."""
IN_PYTHON = "preset=, maps=, paths=, text=, names=, ids=, inputs=False or extra=False"
"""The same as arguments."""

LIBRARY = re.compile(rb".*[/\\](?:" + PACKAGES + rb"|lib[/\\]python\d+\.\d+)[/\\](.+)", re.DOTALL)
ABSOLUTE = re.compile(rb"[/\\]|[A-Za-z][\w+.-]*:[/\\]")
"""Begins absolute paths, those of drives and URLs (``file:/srv``), too."""
OUTSIDE = re.compile(rb"~|(?:.*[/\\])?\.\.[/\\]", re.DOTALL)
"""Begins relative paths that may lead anywhere."""
LEAST_FOLDERS = 2
"""Least number of folders that absolute paths share to be given relative to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is rewritten, and how.

    Attributes:
        maps: prefixes of paths and what replaces them, the longest first.
        paths: what becomes of paths that no map fits.
        source: which lines of source text stay.
        names: what becomes of names of classes and attributes that loading does not need.
        times: what becomes of the dates of records.
        ids: what becomes of the ids of a run in exported programs.
        inputs: whether sample inputs stay.
        extra: whether extra files stay.
        people: whether all that reveals people and machines must be gone: paths, names, addresses, keys.
    """

    maps: tuple[tuple[bytes, bytes], ...] = ()
    paths: PathChoice = "keep"
    source: SourceChoice = "keep"
    names: NameChoice = "keep"
    times: TimeChoice = "none"
    ids: IdChoice = "keep"
    inputs: bool = True
    extra: bool = True
    people: bool = False

    @classmethod
    def of(cls, maps: Iterable[str] = (), preset: Preset | None = None, **given: str | bool | None) -> Self:
        """Rules as options give them.

        Args:
            maps: ``OLD=NEW`` each.
            preset: the choices to begin with.
            given: other attributes; None for those that the preset, or the default, decides.
        """
        pairs = [pair.partition("=") for pair in maps]
        for pair in pairs:
            if not pair[0] or not pair[1]:
                raise ArchiveError(expected="a map OLD=NEW", found="".join(pair) or "nothing")
        if preset is not None and preset not in PRESETS:
            raise ArchiveError(expected=" or ".join(PRESETS), found=preset)
        chosen: dict[str, Any] = dict(PRESETS.get(preset or "", {}))
        chosen |= {name: choice for name, choice in given.items() if choice is not None}
        for name, choices in CHOICES.items():
            if chosen.get(name, choices[0]) not in choices:
                raise ArchiveError(expected=" or ".join(choices), found=str(chosen[name]))
        if chosen.get("names") == "hash" and chosen.setdefault("source", "none") != "none":
            raise ArchiveError(
                "names stand in source text: hashes need --source none", in_python="text='none'"
            )
        try:  # OLD may be a path of any bytes; NEW is written where PyTorch writes text
            encoded = [(old.encode(errors="surrogateescape"), new.encode()) for old, _, new in pairs]
        except UnicodeEncodeError as error:
            found = shown(error.object)
            raise ArchiveError(expected="a map OLD=NEW whose NEW is UTF-8", found=found) from None
        rules = cls(maps=tuple(sorted(encoded, key=lambda pair: -len(pair[0]))), **chosen)
        if rules == cls(times=rules.times):
            raise ArchiveError(f"nothing to redact: give {OPTIONS}", in_python=IN_PYTHON)
        return rules

    @property
    def asked(self) -> str:
        """The choices that are not the defaults, as options of the command."""
        words = [f"--map {old.decode(errors='replace')}={new.decode()}" for old, new in self.maps]
        words += [
            f"--{FLAGS.get(name, name)} {getattr(self, name)}"
            for name, (default, *_) in CHOICES.items()
            if getattr(self, name) != default
        ]
        words += [f"--no-{name}" for name in ("inputs", "extra") if not getattr(self, name)]
        return " ".join(words)

    def root(self, root: str) -> str:
        """The folder of all records: its name is that of the file when it was saved."""
        return root if self.paths == "keep" or not root else UNNAMED_ROOT

    def renamed(self, paths: Iterable[bytes]) -> dict[bytes, bytes]:
        """What each path of an archive becomes."""
        became: dict[bytes, bytes] = {}
        others = []
        for path in sorted(set(paths)):
            fitting = next(((old, new) for old, new in self.maps if path.startswith(old)), None)
            if fitting is not None:
                old, new = fitting
                became[path] = new + path[len(old) :]
            else:
                others.append(path)
        if self.paths == "relative":
            return became | _all_relative(others)
        if self.paths == "basename":
            return became | {path: last_part(path) for path in others}
        if self.paths == "none":
            return became | {path: NO_FILE if path else path for path in others}
        return became | {path: path for path in others}


def _all_relative(paths: Sequence[bytes]) -> dict[bytes, bytes]:
    """Each path relative to a library, or to the folder that all of its home, or all others, are in."""
    homes = {path: home for path in paths if (home := home_of(path)) and not LIBRARY.match(path)}
    folders = {path: path[:end] for path, (end, _) in homes.items() if end < len(path)}
    groups = defaultdict[bytes, list[bytes]](list)
    for path in paths:
        if ABSOLUTE.match(path) and not LIBRARY.match(path):
            groups[folders.get(path, b"")].append(path)
    shared = {folder: _common(group) for folder, group in groups.items()}
    users = {user for _, user in homes.values()}
    became = {}
    for path in paths:
        new, parts = path, SEPARATOR.split(path)
        if library := LIBRARY.fullmatch(path):
            new = library[1]
        elif ABSOLUTE.match(path):
            common = shared.get(folders.get(path, b""), 0)
            new = b"/".join(parts[common:] if common else parts[-1:])
        if OUTSIDE.match(new):  # a relative path that may lead anywhere
            new = parts[-1]
        became[path] = last_part(new) if users & set(SEPARATOR.split(new)) else new
    return became


def _common(paths: Sequence[bytes]) -> int:
    """How many parts of absolute paths name the folder that all are in; 0 where that is useless."""
    levels = zip(*(SEPARATOR.split(path)[:-1] for path in paths), strict=False)
    shared = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, levels)]
    return len(shared) if len([part for part in shared if part]) >= LEAST_FOLDERS else 0


def replacements(pairs: Iterable[str]) -> dict[str, str]:
    """Texts and what replaces them, of ``VALUE=TEXT`` each; the longest first."""
    values = {}
    for pair in pairs:
        value, equals, text = pair.partition("=")
        if not value or not equals or any("\ud800" <= letter <= "\udfff" for letter in pair):
            raise ArchiveError(expected="VALUE=TEXT", found=shown(pair))
        values[value] = text
    again = next((value for value in values if any(value in text for text in values.values())), None)
    if again is not None:
        raise ArchiveError(f"{shown(again)} would be there again: it stands in a text that replaces one")
    return dict(sorted(values.items(), key=lambda pair: -len(pair[0])))


def replaced(text: str, values: Mapping[str, str]) -> str:
    """A text with some texts in it replaced by others."""
    for old, new in values.items():
        text = text.replace(old, new)
    return text


def absent_in(texts: Iterable[str], values: Iterable[str]) -> tuple[str, ...]:
    """The values that none of some texts contains."""
    every = list(texts)
    return tuple(value for value in values if not any(value in text for text in every))
