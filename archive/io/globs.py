"""Globs of paths, all matched at once: each folder is read once, however many globs there are.

``*`` and ``?`` stay within a part of a path, ``[ab]`` is one of these characters, and a part ``**`` is any
number of folders. All globs form one trie of path parts. Walking keeps the set of trie nodes (*places*)
reached so far, so each name takes at most one step per place, without backtracking.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from fnmatch import translate
from functools import cached_property
from glob import has_magic
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

MOST_GLOBS = 1_000
LONGEST = 1_000
"""Most characters of a glob."""
MOST_CHARACTERS = 100_000
"""Most characters of all globs that are matched at once."""
ANY_FOLDERS = "**"


def check_amount(globs: Sequence[str], place: str) -> None:
    """Refuse globs that are too many, or too long."""
    longest, together = max(map(len, globs), default=0), sum(map(len, globs))
    for what, amount, most in (
        ("patterns", len(globs), MOST_GLOBS),
        ("characters of a pattern", longest, LONGEST),
        ("characters of all patterns", together, MOST_CHARACTERS),
    ):
        if amount > most:
            raise ArchiveError(file=place, expected=f"at most {most:,} {what}", found=f"{amount:,}")


def wild(pattern: str) -> re.Pattern[str]:
    """A pattern with ``*``, ``?`` and ``[ab]`` for a whole text; matching never backtracks over a ``*``."""
    closed, bracket, rest = pattern.rpartition("]")  # fnmatch looks for the end of each "[" up to the end
    return re.compile(translate(closed + bracket + rest.replace("[", "[[]")))


class _Place:
    """A node of the trie: what has been read of some globs so far.

    Attributes:
        names: the places after parts without patterns.
        patterns: the places after parts with patterns, and these.
        folders: the place after ``**``; None if no glob continues so.
        numbers: the globs that end here.
        is_loop: whether it follows ``**``, so that any folder leads back to it.
        searches: whether there is a ``**`` before it, or it is one.
    """

    __slots__ = ("_wild", "folders", "is_loop", "names", "numbers", "part", "patterns", "searches")

    def __init__(self, part: str = "", *, searches: bool = False) -> None:
        self.part = part
        self.names: dict[str, _Place] = {}
        self.patterns: dict[str, _Place] = {}
        self.folders: _Place | None = None
        self.numbers: list[int] = []
        self.is_loop = part == ANY_FOLDERS
        self.searches = searches or self.is_loop
        self._wild: re.Pattern[str] | None = None

    def after(self, part: str) -> _Place:
        """The place after a part, created if needed."""
        if part == ANY_FOLDERS:
            if self.is_loop:  # any folders, and any folders
                return self
            self.folders = self.folders or _Place(part)
            return self.folders
        known = self.patterns if has_magic(part) else self.names
        return known.setdefault(part, _Place(part, searches=self.searches))

    def fits(self, name: str) -> bool:
        """Whether the pattern before this place fits a name."""
        self._wild = self._wild or wild(self.part)
        return self._wild.match(name) is not None


class Globs:
    """Globs that are matched at once.

    Args:
        as_shell: as in a shell, ``*`` and ``**`` match no name that begins with a dot, and links to folders
            are followed up to the first ``**``. Otherwise they match all names, and no link is followed.
    """

    def __init__(self, globs: Iterable[Sequence[str]], *, as_shell: bool = False) -> None:
        self._as_shell = as_shell
        self._root = _Place()
        for number, parts in enumerate(globs):
            place = self._root
            for part in parts:
                place = place.after(part)
            place.numbers.append(number)

    def fitting(self, path: Iterable[str]) -> set[int]:
        """The numbers of the globs that fit a path, which is given in its parts."""
        places = self._begin
        for name in path:
            places = self._next(places, name)
        return {number for place in places for number in place.numbers}

    def found(self, top: str | Path) -> Iterator[tuple[str, set[int]]]:
        """The files and folders below a folder that globs fit, each with the numbers of these globs.

        A folder that may not be listed has none. A link to a folder is not found where it isn't followed,
        because it may lead in circles. ``top`` itself is found by a ``**``.
        """
        numbers = _numbers(self._begin)
        if numbers and os.path.isdir(top):  # noqa: PTH112 (as given, "" too)
            yield os.fspath(top), numbers
        folders, above = [(os.fspath(top), self._begin)], set[tuple[str, tuple[_Place, ...]]]()
        while folders:
            folder, places = folders.pop()
            for name in self._names(folder, places):
                path = os.path.join(folder, name)  # noqa: PTH118 (a Path would lose "./")
                is_folder = os.path.isdir(path)  # noqa: PTH112
                is_link = is_folder and os.path.islink(path)  # noqa: PTH114
                following = self._next(places, name, is_file=not is_folder, is_link=is_link)
                if name == os.pardir:  # the same one from each folder
                    reached = os.path.realpath(path), tuple(following)
                    if reached in above:
                        continue
                    above.add(reached)
                if numbers := _numbers(following):
                    yield path, numbers
                if any(
                    place.names or place.patterns or place.folders or place.is_loop for place in following
                ):
                    folders.append((path, following))

    @cached_property
    def _begin(self) -> list[_Place]:
        return list(_with_folders([self._root]))

    def _next(
        self, places: Iterable[_Place], name: str, *, is_file: bool = False, is_link: bool = False
    ) -> list[_Place]:
        """The places after some places and a name, without duplicates; none after an unfollowed link."""
        reached = self._reached(places, name)
        if is_link:  # to a folder
            reached = [place for place in reached if self._as_shell and not place.searches]
        # In a shell, ``**`` does not match after a file.
        return reached if is_file and self._as_shell else list(dict.fromkeys(_with_folders(reached)))

    def _reached(self, places: Iterable[_Place], name: str) -> list[_Place]:
        reached: dict[_Place, None] = {}
        for place in places:
            if name in place.names:
                reached[place.names[name]] = None
            for part, after in place.patterns.items():
                if self._may(part, name) and after.fits(name):
                    reached[after] = None
            if place.is_loop and self._may("", name):
                reached[place] = None
        return list(reached)

    def _may(self, part: str, name: str) -> bool:
        return not self._as_shell or not name.startswith(".") or part.startswith(".")

    @staticmethod
    def _names(folder: str, places: Iterable[_Place]) -> list[str]:
        """The names in a folder that globs may fit, sorted; names without patterns are not listed."""
        names = {name for place in places for name in place.names}
        names = {name for name in names if os.path.lexists(os.path.join(folder, name))}  # noqa: PTH118
        if any(place.patterns or place.is_loop for place in places):
            with suppress(OSError):  # not a folder, or somebody else's
                names |= set(os.listdir(folder or os.curdir))  # noqa: PTH208
        return sorted(names)


def _with_folders(places: Iterable[_Place]) -> Iterator[_Place]:
    """Places, and those after ``**``, which may match no folder."""
    for place in places:
        yield place
        if place.folders is not None:
            yield place.folders


def _numbers(places: Iterable[_Place]) -> set[int]:
    return {number for place in places for number in place.numbers}
