"""Lines of a log that name a model: by an id or a name that a pattern finds, or by an archive id as it is.

A user gives the patterns, and strangers may have written the lines, so both have bounds.
"""

from __future__ import annotations

import re
from collections import deque
from functools import cached_property
from time import thread_time
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, counted, shown
from archive.base.strings import decoded
from archive.failures.log.forms import TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from archive.failures.log.streams import LogStream
    from archive.failures.models.models import Model, Models


# --- patterns

MAX_PATTERN = 1_000
"""Characters of a pattern."""
MAX_WRITTEN_OUT = 50_000
"""Steps of a pattern whose counts are written out, as ``regex`` does with them: 300 bytes each."""
COUNT = re.compile(rb"\{(\d*)(?:,(\d*))?\}")
BEHIND_GROUPS = b")}?*+"
"""What precedes the count of a group, or the second count of anything."""
ESCAPED = rb"(?<!\\)(?:\\\\)*"
UNBOUNDED = {
    "a call of a group": re.compile(ESCAPED + rb"\(\?(?:R|&|P\s*[>&]|[-+]?\d)"),
    "an approximate match": re.compile(ESCAPED + rb"\{[\d<=+,]*[deis](?:[<=+,][\d<=+,deis]*)?[:}]"),
    "a pattern with comments, (?x),": re.compile(ESCAPED + rb"\(\?[A-Za-z\d]*x[A-Za-z\d]*[-:)]"),
}
"""What ``regex`` has and where no count gives the size: the stack of a search then grows without bound."""
SLOW = 0.01
"""Seconds; a search that takes longer is counted."""
MOST_SLOW = 2.0
"""Seconds that all counted searches of a pattern may take."""


class Pattern:
    """A regular expression, whose searches take a bounded time.

    Python's own ``re`` can't be stopped: ``(a|a)*$`` takes it years on a line of a hundred letters. The
    library ``regex`` reads the same patterns, and stops.

    Attributes:
        has_found: whether a line had a match.
    """

    def __init__(self, text: str) -> None:
        import regex  # noqa: PLC0415 (40 ms, for few)

        if len(text) > MAX_PATTERN:
            raise ArchiveError(f"a pattern of {len(text):,} characters; at most {MAX_PATTERN:,} are allowed")
        pattern = text.encode("utf-8", "surrogateescape")
        _check_size(pattern, shown(text))
        try:
            self._compiled = regex.compile(pattern)
        except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise ArchiveError(f"{shown(text)} isn't a regular expression: {error}") from None
        self._text = text
        self._left = MOST_SLOW
        self.has_found = False

    def found_in(self, line: bytes, number: int) -> tuple[bytes, bytes] | None:
        """The first group of a match in a line, or the whole match without groups, and what follows it.

        None for no match, and for a group that has none.
        """
        start = thread_time()
        try:
            match = self._compiled.search(line, timeout=self._left)
        except TimeoutError:
            raise self._too_slow(number) from None
        except MemoryError:
            why = f"the pattern {shown(self._text)} takes too much memory"
            raise ArchiveError(f"line {number}: {why}") from None
        seconds = thread_time() - start
        if seconds > SLOW:
            self._left -= seconds
            if self._left <= 0:
                raise self._too_slow(number)
        self.has_found = self.has_found or match is not None
        group = 1 if self._compiled.groups else 0
        return (match[group], line[match.end(group) :]) if match and match[group] is not None else None

    @property
    def why_idle(self) -> str:
        """What is said of it if no line has had a match."""
        return f"no line of the log has what {shown(self._text)} looks for, so it names no model"

    def _too_slow(self, number: int) -> ArchiveError:
        why = "parts of it that match the same text in many ways take long; name what stands between them"
        return ArchiveError(f"line {number}: the pattern {shown(self._text)} takes too long: {why}")


def _check_size(pattern: bytes, name: str) -> None:
    """Refuse a pattern that would be long once its counts are written out, before it is compiled.

    Counts of groups may be nested, those of single characters may not. So the product of the former, times
    the sum of the latter, is at least the number of steps, wherever the groups begin and end.
    """
    for what, construct in UNBOUNDED.items():
        if construct.search(pattern):
            raise ArchiveError(f"the pattern {name} is not allowed: {what} has no bound")
    outer, inner = 1, len(pattern)
    for count in COUNT.finditer(pattern):
        times = max(int(count[1] or 0), int(count[2] or 0), 1)
        if pattern[: count.start()][-1:] in BEHIND_GROUPS:
            outer *= times
        else:
            inner += times
    if outer * inner > MAX_WRITTEN_OUT:
        why = f"with its counts written out it may have more than {MAX_WRITTEN_OUT:,} steps"
        raise ArchiveError(f"the pattern {name} is too large: {why}")


# --- naming

LINE = re.compile(rb"\n|[^\n]+\n?")
GOES_ON = re.compile(r"[.+-]*\w")
"""What makes words those of another name."""
NEAR = 5
"""Lines above a failure, or its Python traceback, in which an archive id names its model."""
MAX_SEARCHED = 1 << 14
"""Bytes of a line that are searched for names."""
MOST_NAMED = 64
"""Lines that name a model and are remembered: those of other processes may stand between them."""


class NamingLine(NamedTuple):
    """A line that names models.

    Attributes:
        models: the models that it may mean; none where no model has that id or name.
        longer: a name of a model that the line has whole, if the pattern found only its first words.
        against: the line that names other models, if it and this one contradict each other.
    """

    models: Sequence[Model]
    text: str
    line: int
    data: bytes
    longer: str = ""
    against: str = ""

    def __str__(self) -> str:
        return f"line {self.line} names {shown(self.text)}"

    def why_none(self, models: int) -> str:
        """Why it names none of the models, of which there are this many."""
        if self.longer:
            return f"that may be the beginning of {shown(self.longer)}: let the pattern match all of it"
        if self.against:
            return f"{self.against}, and no model is both"
        return f"none of {counted(models, 'model')} has that id or name"

    @property
    def is_release(self) -> bool:
        """Whether it only says a label of theirs, which models that are not at hand may have, too."""
        return any(self.text in model.labels for model in self.models)


class Naming:
    """Notes the lines that name a model. What a pattern finds holds until one finds something else.

    What a line says more than once must be of one model: what both patterns find, and an archive id there. So
    must an archive id near a failure, and below the line where a pattern found something. Where no model is
    all of that, none is named.

    Lines of several processes may be mixed. A line that differs from a failure's own lines in the numbers
    around its text may be another process's; one that doesn't differ counts first.

    Args:
        ids: a pattern whose first group, or whole match, is an archive id, eight or more of its first digits,
            a prefix or a serialization id. A line where that is empty names none.
        names: the same for the name of a file or of the top module's class.
    """

    def __init__(self, models: Models, *, ids: str | None = None, names: str | None = None) -> None:
        self._models = models
        meanings: tuple[tuple[str | None, Callable[[str], Sequence[Model]]], ...] = (
            (ids, models.of_id),
            (names, lambda name: models.by_name.get(name, ())),
        )
        self._patterns = [
            (Pattern(pattern), meant, pattern is names) for pattern, meant in meanings if pattern is not None
        ]
        self._by_pattern = deque[NamingLine](maxlen=MOST_NAMED)
        self._near = deque[NamingLine](maxlen=MOST_NAMED)
        self._failed = deque[tuple[int, bytes]](maxlen=MOST_NAMED)
        self._number = 0

    def named(self, stream: LogStream, lines_of_traceback: int = 0) -> NamingLine | None:
        """The line that names the model of a failure in the last line seen; None where none does.

        Args:
            lines_of_traceback: lines above it that are of its Python traceback.
        """
        near = [
            naming
            for naming in self._near
            if self._number - naming.line <= lines_of_traceback + NEAR and self._is_for(naming, stream)
        ]
        if not self._by_pattern:
            return _united(near) if near else None
        latest = _latest(self._by_pattern, stream)
        later = [naming for naming in near if naming.line > latest.line]
        return _met([latest, _united(later)]) if later else latest

    def by_pattern(self, stream: LogStream) -> NamingLine | None:
        """The line in which a pattern found the model of such a failure; None where none did."""
        return _latest(self._by_pattern, stream) if self._by_pattern else None

    def _is_for(self, naming: NamingLine, stream: LogStream) -> bool:
        """Whether a line near a failure may name its model: no other process's, nor an earlier failure's."""
        is_same = stream.text_of(naming.data) is not None
        if not is_same and _process(naming.data, stream) is not None:
            return False
        between = [data for number, data in self._failed if naming.line <= number < self._number]
        return not any(
            not is_same or stream.text_of(data) is not None or _process(data, stream) is None
            for data in between
        )

    @property
    def notes(self) -> list[str]:
        """The patterns that no line has matched, each in a sentence."""
        return [pattern.why_idle for pattern, *_ in self._patterns if not pattern.has_found]

    def saw(self, line: bytes, number: int, *, is_failing: bool = False) -> None:
        """Note a line.

        Args:
            is_failing: whether a failure may begin in it.
        """
        if number < self._number:  # another log
            self._by_pattern.clear()
            self._near.clear()
            self._failed.clear()
        self._number = number
        if len(line) > MAX_SEARCHED:
            self._by_pattern.clear()  # it may name another model further on
        found = [*self._found_in(line[:MAX_SEARCHED], number)]
        # Archive ids count wherever they stand: a failure may be of each model.
        if ids := [decoded(word) for _, word in self._models.known_ids.places_in(line)]:
            models = [model for archive_id in ids for model in self._models.by_id[archive_id]]
            near = NamingLine(models, ids[-1], number, line[:MAX_SEARCHED])
            self._near.append(near)
            found = [*found, near] if found else []
        if found:
            self._by_pattern.append(_met(found))
        if is_failing:
            self._failed.append((number, line[:MAX_SEARCHED]))

    def _found_in(self, line: bytes, number: int) -> Iterator[NamingLine]:
        """What each pattern finds in a line."""
        for pattern, meant, is_of_names in self._patterns:
            found = pattern.found_in(line, number)
            if found and found[0]:
                text = decoded(found[0])
                longer = self._longer(text, decoded(found[1])) if is_of_names else ""
                yield NamingLine(() if longer else meant(text), text, number, line, longer)

    @cached_property
    def _longest(self) -> Mapping[str, int]:
        """Of the names that have blanks, the characters of the longest one, by their first word."""
        longest: dict[str, int] = {}
        for name in self._models.by_name:
            first, blank, _ = name.partition(" ")
            if blank:
                longest[first] = max(len(name), longest.get(first, 0))
        return longest

    def _longer(self, text: str, rest: str) -> str:
        """The longest name whose first words a pattern found, and whose others follow there; "" for none.

        Which of the two the line means, nothing says.
        """
        most = self._longest.get(text.partition(" ")[0], 0) - len(text) if rest.startswith(" ") else 0
        for end in range(min(most, len(rest)), 1, -1):
            if text + rest[:end] in self._models.by_name and not GOES_ON.match(rest, end):
                return text + rest[:end]
        return ""

    def naming_in(self, lines: bytes) -> Iterable[int]:
        """Places of what may name a model; one in each line where there are patterns."""
        if self._patterns:
            return [match.start() for match in LINE.finditer(lines)]
        return [place for place, _ in self._models.known_ids.places_in(lines)]


def _latest(namings: Sequence[NamingLine], stream: LogStream) -> NamingLine:
    """The latest of lines that name a model and may be a failure's; several where nothing says which."""
    others: list[NamingLine] = []
    for naming in reversed(namings):
        if stream.text_of(naming.data) is not None:
            return _united([naming, *others])
        if _process(naming.data, stream) is None:
            others.append(naming)
    if others and others[0] is namings[-1]:
        return namings[-1]
    # Numbers differ between lines of one process, too. The latest line of each process may be meant.
    latest = {_process(naming.data, stream): naming for naming in namings if naming not in others}
    return _united(list(latest.values()))


def _process(line: bytes, stream: LogStream) -> bytes | None:
    """What distinguishes a line's process from others of the same logger; None for another form."""
    text = stream.loosened.text_of(line)
    return None if text is None else TIMES.sub(b"", line.replace(text, b""))


def _met(namings: Sequence[NamingLine]) -> NamingLine:
    """The models that each of some namings means; none, and why, if there are no such."""
    first = min(namings, key=lambda naming: naming.is_release)  # an id says more than a label
    for other in namings:
        if not other.models:
            return other
        models = [model for model in first.models if model in other.models]
        if not models:
            return first._replace(models=(), against=str(other))
        first = first._replace(models=models)
    return first


def _united(namings: Sequence[NamingLine]) -> NamingLine:
    """All models that lines name; none if one of the lines names a model that isn't there."""
    stranger = next((naming for naming in namings if not naming.models), None)
    if stranger:
        return stranger
    models = [model for naming in namings for model in naming.models]
    return max(namings, key=lambda naming: naming.line)._replace(models=list(dict.fromkeys(models)))
