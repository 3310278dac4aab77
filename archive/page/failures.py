"""The causes of a log's failures → one page: each opens with its explanation from the log, at its line.

::

    {"version": 1, "failures": {…}, "models": [{"sources"}…]}

``failures``: ``log``, its name; ``models``, the names of the models that explain failures, those with most
first; ``unexplained``, how many failures are; ``source``, how much of the models' source the page
shows, :class:`~archive.page.shown.Shown`; ``span``, the first and the last time of all, or two "";
``interval``, seconds of each interval of times; ``caveat``, what the explanations rest on where nothing names
their model, or ""; ``notes``, why failures stay unexplained, and what was left out; ``causes``.

``causes``, a row for each, those with most failures first: ``count`` and ``message`` as
:class:`~archive.failures.explainer.CauseGroup` has them, ``proven`` (its ``is_proven``),
``file``, ``line`` and ``where`` of its cause,
``models`` (numbers), ``first`` and ``last`` (times as the log has them, or ""), ``seconds`` (the last time as
a number, to sort by; or null), ``times`` (counts in equal intervals of one span that all causes share, or
null where no line has a time), ``excerpt`` (the explanation in the log; "" where none is shown), ``marked``
(the first and the last of its lines, from 0, that show ``file`` and ``line``; or null where none does),
``link``: numbers of a model and of a file of its sources, and the position at which the line begins there;
or null.

Each of the outer ``models`` has the ``sources`` that links lead to, as a report has them, without records.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from posixpath import commonpath
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, counted
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.frames import BEGINNING, CALL
from archive.failures.models.models import Models
from archive.formats.release_label import labels_in_words
from archive.page.bounding import MOST_BYTES, Facts
from archive.page.document import document, packed
from archive.page.shown import Shown
from archive.page.sources import ArchiveSources
from archive.page.summary import summary_of
from archive.page.tables import TRACED, is_traced
from archive.page.traced import TracedSources
from archive.page.units import count_of, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.failures.explainer import CauseGroup, LogExplainer
    from archive.reader.archive import Archive

VERSION = 1
MOST_SOURCES = 32
"""Models whose sources a page holds."""
MOST_NOTES, LONGEST_NOTE = 200, 1_000
"""Notes on a page, and characters of one."""
FRAME_FILE = re.compile(rb'(\bFile ")[^\n]*[/\\](?=[^/\\\n]*", line \d)')
CALL_FILE = re.compile(rb"(?m)^[^\n]*[/\\](?=[^/\\\n]+\(\d+\): )")
"""The folders in the two forms in which PyTorch prints a file, whose name may contain quotes."""
FRAME = re.compile(f" *{BEGINNING}")
MARK = re.compile(r"\s*~+ <--- HERE")
UNDERLINE = re.compile(r"\s*~+")
"""Begins a frame; stands below its last line of code; stands below the others."""


def failures_page(
    explainer: LogExplainer, asked: Archive | Models, log: str, shown: Shown = Shown.FULL
) -> bytes:
    """The page of a log's failures: one HTML file that needs no network, the same bytes for the same log.

    Args:
        explainer: has read the log, with ``causes.room`` set before, for the texts of causes.
        log: the log's name, without folders.
    """
    facts, data = _fitted(failures_facts(explainer, asked, log, shown))
    return document(data, summary_of(facts))


def failures_facts(
    explainer: LogExplainer, asked: Archive | Models, log: str, shown: Shown = Shown.FULL
) -> Facts:
    """The data of that page."""
    groups = explainer.causes.top()
    models = _Asked(asked, groups, shown)
    notes = [*explainer.notes]
    if explainer.causes.others:
        notes.append(f"{counted(explainer.causes.others, 'failure')} of further causes")
    places = [
        _Place(models.of(group)[0], group.cause.file, group.cause.line, group.text or b"") for group in groups
    ]
    sources = _Sources(models, places, shown) if shown.has_text else None
    has_times = any(group.first_time for group in groups)
    files = [plain(shown.file(group.cause.file)) for group in groups]
    excerpts = [_excerpt(group, shown) for group in groups]
    causes: Facts = {
        "count": [group.count for group in groups],
        "proven": [group.is_proven for group in groups],
        "file": files,
        "line": [group.cause.line for group in groups],
        "where": [plain(group.cause.where) for group in groups],
        "message": [plain(group.message) for group in groups],
        "models": [models.of(group) for group in groups],
        "first": [group.first_time.text if group.first_time else "" for group in groups],
        "last": [group.last_time.text if group.last_time else "" for group in groups],
        "seconds": [group.last_time and group.last_time.seconds for group in groups],
        "times": [explainer.causes.times.row(group.times or {}) if has_times else None for group in groups],
        "excerpt": excerpts,
        "marked": [
            marked_lines(excerpt, shown.file(group.cause.file), group.cause.line)
            for excerpt, group in zip(excerpts, groups, strict=True)
        ],
        "link": [sources.links.get(place) if sources else None for place in places],
    }
    if any(group.text is None for group in groups) and shown.has_text:
        short = sum(group.text is None for group in groups)
        notes.append(f"{counted(short, 'cause')} without an explanation: the page has no room for it")
    notes += [*(sources.left_out if sources else ()), *models.notes()]
    return {
        "version": VERSION,
        "failures": {
            "log": plain(log),
            "models": models.labels,
            "causes": causes,
            "unexplained": explainer.unknown,
            "source": shown.value,
            "span": _span(groups),
            "interval": explainer.causes.times.width,
            "caveat": plain(explainer.caveat),
            "notes": _shown_notes(notes, shown),
        },
        "models": sources.facts if sources else [{} for _ in models.labels],
    }


def _span(groups: Sequence[CauseGroup]) -> list[str]:
    """The first and the last time of all."""
    first = min((group.first_time for group in groups if group.first_time), default=None)
    last = max((group.last_time for group in groups if group.last_time), default=None)
    return [time.text if time else "" for time in (first, last)]


def _shown_notes(notes: Sequence[str], shown: Shown) -> list[str]:
    """Notes as they are shown: without those that may have paths, where paths are not shown."""
    visible = [note for note in notes if shown.has_paths or not re.search(r"[/\\]", note)]
    if len(visible) < len(notes):
        visible.append(
            f"{counted(len(notes) - len(visible), 'note')} that may have paths: --source full shows them"
        )
    cut = [plain(note[:LONGEST_NOTE]) for note in visible[:MOST_NOTES]]
    more = len(visible) - len(cut)
    return [*cut, f"{counted(more, 'further note')}"] if more else cut


def _excerpt(group: CauseGroup, shown: Shown) -> str:
    """The explanation of a cause, as far as it is shown."""
    text, file = group.text, group.cause.file
    if not text or not shown.has_text:
        return ""
    if not shown.has_paths:
        whole, base = (name.encode("utf-8", "backslashreplace") for name in (file, shown.file(file)))
        text = text.replace(whole, base)  # its name may have line breaks
        text = CALL_FILE.sub(b"", FRAME_FILE.sub(rb"\1", text))
    return text.decode("utf-8", "backslashreplace")


def marked_lines(excerpt: str, file: str, line: int) -> list[int] | None:
    """The lines of an explanation that show a place: only in the cause's own frame.

    Args:
        file: the place's file, as the explanation has it; "" where no place is known.

    Returns:
        The numbers of the first and the last one, from 0: where PyTorch marked the place in its frame, its
        lines of code and the mark below; else the frame's heading and the line of code below; None where no
        frame has the place.
    """
    if not file:
        return None
    lines = excerpt.split("\n")
    heading, call = f'File "{file}", line {line}', f"{file}({line}): "
    frames = [at for at, text in enumerate(lines) if _is_heading(text.strip(), heading, call)]
    if not frames:
        return None
    first = frames[-1]  # the innermost, as of a cause
    if not FRAME.match(lines[first]):  # of a Python stack, whose innermost frame is its first
        start = first
        while start and CALL.fullmatch(lines[start - 1]):
            start -= 1
        first = next(at for at in frames if at >= start)
        return [first, first]
    after = range(first + 1, len(lines))
    stop = next((at for at in after if FRAME.match(lines[at])), len(lines))
    mark = next((at for at in range(first + 2, stop) if MARK.fullmatch(lines[at])), None)
    if mark is not None:
        start = mark - 1
        while start - 1 > first and UNDERLINE.fullmatch(lines[start - 1]):  # of a place of several lines
            start -= 2
        return [start, mark]
    has_code = first + 1 < stop and lines[first + 1].startswith("  ")
    return [first, first + has_code]


def _is_heading(text: str, heading: str, call: str) -> bool:
    """Whether a line begins the frame of a place."""
    return text == heading or text.startswith((call, f"{heading}, in "))


@dataclass(frozen=True, slots=True)
class _Place:
    """A line of a model's source, and its explanation; b"" where that isn't kept."""

    model: int
    file: str
    line: int
    text: bytes

    def choice(self, starts: Sequence[tuple[int, str]], name: str) -> int:
        """Where the line begins, among those with its number; -1 where none is the printed one.

        Generated files have many lines with one number, and so do Python stacks.

        Args:
            name: the file as the page shows it, which the frames of Python stacks are in.
        """
        printed = self.text.decode("utf-8", "backslashreplace")
        if not printed and len({line for _, line in starts}) > 1:
            return -1
        for at, line in starts:
            call = CALL.fullmatch(line)
            if (call is None or call[1] == name) and (not printed or line.strip() in printed):
                return at
        return -1


class _Asked:
    """The models that explain failures, those with most first.

    Attributes:
        labels: their names, as :func:`_labels` gives them, with the labels of their releases.
    """

    def __init__(self, asked: Archive | Models, groups: Sequence[CauseGroup], shown: Shown) -> None:
        self._asked = asked
        self._shown = shown
        many = Counter[str]()
        for group in groups:
            many.update(dict.fromkeys(group.models, group.count))
        if isinstance(asked, Models):
            self._files = [file for file, _ in many.most_common()]
        else:
            self._files = [asked.file] if groups else []
        self._numbers = {file: number for number, file in enumerate(self._files)}
        self.labels = [
            plain(labels_in_words(name, (release,)) if release else name)
            for name, release in zip(_labels(self._files, shown), self._releases(), strict=True)
        ]

    def _releases(self) -> list[str]:
        """The label of the release that each model is of; "" for none."""
        if not isinstance(self._asked, Models):
            companion = self._asked.companion
            return ["" if companion is None else companion.label for _ in self._files]
        labels = {model.file: model for model in self._asked.all if model.file in self._numbers}
        return [labels[file].label for file in self._files]

    def of(self, group: CauseGroup) -> list[int]:
        """The numbers of the models of a cause."""
        return [self._numbers[file] for file in group.models] or [0]

    def notes(self) -> list[str]:
        """Notes about models that can't be read, or have no failures."""
        if not isinstance(self._asked, Models):
            return []
        unread, idle = self._asked.unread, len(self._asked) - len(self._files)
        notes = [f"{counted(idle, 'model')} without failures here"] if idle > 0 else []
        if unread and not self._shown.has_paths:
            return [*notes, f"{counted(len(unread), 'model')} not read"]
        return [*notes, *(f"not read: {file}: {why}" for file, why in unread.items())]

    def made(self, number: int, make: Callable[[Archive], Facts]) -> Facts:
        """The result of making something from a model."""
        if not isinstance(self._asked, Models):
            return make(self._asked)
        model = next(model for model in self._asked.all if model.file == self._files[number])
        with self._asked.using(model, make, make) as facts:
            return facts


def _labels(files: Sequence[str], shown: Shown) -> list[str]:
    """Names of files; where several share one, with the folders that they don't share, or numbered."""
    paths = [file.replace("\\", "/") for file in files]
    names = [path.rpartition("/")[2] for path in paths]
    if len(set(names)) == len(names):
        return names
    if not shown.has_paths:
        many, seen, labels = Counter(names), Counter[str](), []
        for name in names:
            seen[name] += 1
            labels.append(name if many[name] == 1 else f"{name} ({seen[name]} of {many[name]})")
        return labels
    try:
        above = commonpath(paths)
    except ValueError:  # some are relative, and others not
        return paths
    return [path[len(above) :].lstrip("/") or path for path in paths]


class _Sources:
    """The files of source in which causes lie.

    Attributes:
        links: where the lines of places stand in the sources, if they do.
        facts: the sources of each model.
        left_out: what is not on the page, in words.
    """

    def __init__(self, models: _Asked, places: Sequence[_Place], shown: Shown) -> None:
        self.left_out: list[str] = []
        self.links: dict[_Place, list[int]] = {}
        self.facts: list[Facts] = [{} for _ in models.labels]
        self._shown = shown
        wanted: dict[int, list[_Place]] = {}
        for place in places:
            if place.file:
                wanted.setdefault(place.model, []).append(place)
        for number in sorted(wanted)[:MOST_SOURCES]:
            try:
                self._add(number, wanted[number], models.made(number, partial(_whole_files, shown=shown)))
            except (ArchiveError, OSError) as error:
                self.left_out.append(f"no source of {models.labels[number]}: {type(error).__name__}")
        if len(wanted) > MOST_SOURCES:
            self.left_out.append(f"no sources of {counted(len(wanted) - MOST_SOURCES, 'further model')}")

    def _add(self, number: int, places: Sequence[_Place], sources: Facts) -> None:
        """Add the files of a model that have a place."""
        names = {place: plain(self._shown.file(place.file)) for place in places}
        files = {file["name"]: file for file in sources["files"]}
        stacks = _stacks(sources["files"], {f"{name}({place.line})" for place, name in names.items()})
        starts: dict[str, dict[int, list[tuple[int, str]]]] = {}
        listed: dict[str, int] = {}
        for place, name in names.items():
            for holder in dict.fromkeys((name, stacks.get(f"{name}({place.line})", name))):
                if holder not in files:
                    continue
                if holder not in starts:
                    starts[holder] = _starts(files[holder])
                at = place.choice(starts[holder].get(place.line, ()), name)
                if at >= 0:
                    self.links[place] = [number, listed.setdefault(holder, len(listed)), at]
                    break
        if listed:
            self.facts[number] = {"sources": {"files": [files[name] for name in listed], "records": []}}


def _whole_files(opened: Archive, shown: Shown) -> Facts:
    """All files of source of a model."""
    if is_traced(opened):
        traced = TracedSources(shown)
        for table, add in TRACED:
            add(table(), opened, traced)
        return traced.facts()
    return ArchiveSources(opened, shown).facts()


def _stacks(files: Sequence[Facts], places: set[str]) -> dict[str, str]:
    """For each of some places, ``net.py(12)``, the file whose Python stacks have a frame there."""
    found: dict[str, str] = {}
    for file in files:
        for line in file["text"].split("\n"):
            call = CALL.fullmatch(line)
            if call and (place := f"{call[1]}({call[2]})") in places:
                found.setdefault(place, file["name"])
    return found


def _starts(file: Facts) -> dict[int, list[tuple[int, str]]]:
    """Where the lines of each number begin in a file, in UTF-16 units, and the lines."""
    numbers = dict(map(tuple, file["lines"]))
    starts: dict[int, list[tuple[int, str]]] = {}
    at, number = 0, 1
    for line in file["text"].split("\n"):
        number = numbers.get(at, number)
        starts.setdefault(number, []).append((at, line))
        at, number = at + count_of(line) + 1, number + 1
    return starts


def _fitted(facts: Facts) -> tuple[Facts, bytes]:
    """Data that fit on a page, and the same packed; notes say what doesn't.

    Sources of the last models go first, then the rarest causes, with the models that only they have.
    """
    less, data = facts, packed(facts)
    with_sources, rows = sum(map(bool, facts["models"])), len(facts["failures"]["causes"]["count"])
    while len(data) > MOST_BYTES and (with_sources or rows):
        with_sources, rows = (with_sources // 2, rows) if with_sources else (0, rows // 2)
        less = _cut(facts, with_sources, rows)
        data = packed(less)
    return less, data


def _cut(facts: Facts, sources: int, rows: int) -> Facts:
    """Data of this many causes, with the sources of this many models."""
    failures, all_rows = facts["failures"], len(facts["failures"]["causes"]["count"])
    causes = {name: column[:rows] for name, column in failures["causes"].items()}
    named = sorted({number for numbers in causes["models"] for number in numbers})
    place = {number: index for index, number in enumerate(named)}
    shown = [number for number in named if facts["models"][number]][:sources]
    causes["models"] = [[place[number] for number in numbers] for numbers in causes["models"]]
    causes["link"] = [
        [place[link[0]], *link[1:]] if link and link[0] in shown else None for link in causes["link"]
    ]
    notes = [*failures["notes"]]
    if len(shown) < sum(map(bool, facts["models"])):
        notes.append("sources of some models are left out: the page would be too large")
    if rows < all_rows:
        rest = sum(failures["causes"]["count"][rows:])
        notes.append(f"{counted(all_rows - rows, 'cause')} left out, of {counted(rest, 'failure')}")
    return {
        **facts,
        "failures": {
            **failures,
            "models": [failures["models"][number] for number in named],
            "causes": causes,
            "notes": notes,
        },
        "models": [facts["models"][number] if number in shown else {} for number in named],
    }
