"""The texts of a pickle of ``torch.save``: where each stands, what it is for, and the pickle with others.

A text is one instruction, ``SHORT_BINUNICODE``, ``BINUNICODE`` or ``BINUNICODE8``: its length, then UTF-8.
The memo counts values, not bytes, so texts of other lengths move nothing else, with one exception: ``FRAME``,
from protocol 4 on, says how many bytes there are to its end. A text gets the instruction that Python's
pickler gives it in this protocol (``save_str`` in ``Lib/pickle.py``). A text that is used in several places
is one instruction, which the memo has; so it has all their uses.

*Data* is what ``torch.load`` returns unchanged: items of lists, tuples and sets, keys and values of dicts, of
``OrderedDict`` and ``defaultdict``, and attributes of ``OrderedDict``, ``argparse.Namespace`` and
``types.SimpleNamespace``. All else may be *needed* to load it: names of classes, functions and attributes,
parts of storages' ids, arguments of every other call, and states of all other objects, with which their
classes may do anything. A text that is not known to be data counts as needed. What ``pathlib`` makes of its
arguments, no instruction has as a whole.
"""

from __future__ import annotations

import pickletools
from collections import deque
from itertools import chain, pairwise
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base import memory
from archive.base.errors import ArchiveError, one_line
from archive.pickles.machine import Machine
from archive.pickles.values import DICTS, Global, Inert, set_of, walked
from archive.pickles.write import text_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


HEADS = {"SHORT_BINUNICODE": 2, "BINUNICODE": 5, "BINUNICODE8": 9}
"""Bytes of an instruction before its text."""
FRAME_BYTES = 9
CALLS = {"REDUCE", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ", "BINPERSID"}
WITH_ATTRIBUTES = (DICTS[1], Global("argparse", "Namespace"), Global("types", "SimpleNamespace"))
UNKNOWN = "part of nothing that is loaded"
PATHS: dict[str, type[PurePath]] = {
    f"{pure}{system}Path": of_system
    for pure in ("", "Pure")
    for system, of_system in (("", PurePosixPath), ("Posix", PurePosixPath), ("Windows", PureWindowsPath))
}
"""Classes of ``pathlib`` in pickles, and what puts their parts together."""


class SavedText(str):
    """A text of a pickle.

    Attributes:
        at: the byte of its instruction.
        end: the byte after that.
        is_data: whether it stands somewhere as a value.
        is_key: whether it stands somewhere as a key of a dict, or in a set.
        needed: what it is needed for; "" if it isn't.
    """

    __slots__ = ("at", "end", "is_data", "is_key", "needed")

    def __init__(self, text: str) -> None:
        del text  # str itself has it
        self.at = self.end = 0
        self.is_data = self.is_key = False
        self.needed = ""

    @property
    def obstacle(self) -> str:
        """Why it must stay as it is; "" where it may change."""
        return self.needed or ("" if self.is_data or self.is_key else UNKNOWN)


class Fixed(NamedTuple):
    """Letters of a pickle that don't belong to its texts: names of classes, bytes, texts of Python 2.

    Attributes:
        at: the byte of the instruction.
        name: of the instruction.
        content: the letters, or bytes.
    """

    at: int
    name: str
    content: str | bytes | bytearray


class PathOfParts(NamedTuple):
    """A path that loading makes of several texts.

    Attributes:
        at: the byte of its first text's instruction.
        path: the path.
        why: why its texts stay.
    """

    at: int
    path: str
    why: str


class SavedTexts(NamedTuple):
    """The texts of a pickle.

    Attributes:
        texts: in the pickle's order.
        fixed: other letters.
        paths: those that loading makes of several texts.
        keys: the keys of each dict, and the elements of each set, that are data.
        protocol: of the pickle.
        frames: the first byte in each frame, and the one after the last.
    """

    texts: Sequence[SavedText]
    fixed: Sequence[Fixed]
    paths: Sequence[PathOfParts]
    keys: Sequence[Sequence[object]]
    protocol: int
    frames: Sequence[tuple[int, int]]


def texts_of(data: memoryview) -> SavedTexts:
    """The texts of a pickle, with what they are for."""
    machine = _TextMachine()
    machine.run(data, 0)
    memory.take(memory.TEXT * machine.steps, "texts of a pickle")
    for value, reason in machine.needed:
        _mark_needed(value, reason, machine.seen)
    for state in machine.attributes:
        for name, _ in state.pairs:
            _mark_needed(name, "the name of an attribute", machine.seen)
    keys = list(_mark_data(machine.stack[-1], machine.seen))
    return SavedTexts(machine.texts, machine.fixed, machine.paths, keys, machine.protocol, machine.frames)


class _TextMachine(Machine):
    """Notes texts, and what each call and state may need, whether or not its result is used."""

    def __init__(self) -> None:
        super().__init__([])
        self.steps = 0
        self.protocol = 0
        self.texts: list[SavedText] = []
        self.fixed: list[Fixed] = []
        self.paths: list[PathOfParts] = []
        self.frames: list[tuple[int, int]] = []
        self.needed: list[tuple[object, str]] = []
        self.attributes: list[Inert] = []
        self.seen: set[int] = set()

    def _frequent(self, *_: object) -> None:
        """Each instruction is looked at."""

    def step(self, name: str, argument: Any) -> None:  # noqa: ANN401 (as the instruction has it)
        """Take an instruction."""
        self.steps += 1
        if name in HEADS:
            head, argument = HEADS[name], SavedText(argument)
            argument.at = self.at
            argument.end = self.at + head + len(argument.encode(errors="surrogatepass"))
            self.texts.append(argument)
        elif name == "PROTO":
            self.protocol = argument
        elif name == "FRAME":
            begin = self.at + FRAME_BYTES
            self.frames.append((begin, begin + argument))
        elif isinstance(argument, str | bytes | bytearray):
            self.fixed.append(Fixed(self.at, name, argument))
        if name == "STACK_GLOBAL":
            self.needed += [(part, "the name of a class or function") for part in self.stack[-2:]]
        elif name == "NEWOBJ_EX":
            self.needed.append((self.stack[-1], "an argument of a call"))
        elif name == "BUILD":
            self._note_state(*self.stack[-2:])
        super().step(name, argument)
        if name in CALLS:
            self._note_call(self.stack[-1])

    def _note_call(self, made: Inert) -> None:
        if made.what == "persistent":
            self.needed += [(value, "part of a storage's id") for value in made.arguments]
        elif set_of(made) is None:
            why = f"an argument of {_words(made.what)}"
            self.needed.append((made.what, "what is called"))
            self.needed += [(value, why) for value in made.arguments]
            self._note_path(made, why)

    def _note_path(self, made: Inert, why: str) -> None:
        match made:
            case Inert(what=Global(module=module, name=name), arguments=[SavedText(), _, *_] as parts):
                if name in PATHS and module.partition(".")[0] == "pathlib":
                    texts = [part for part in parts if isinstance(part, SavedText)]
                    memory.take(memory.ROW + sum(map(len, texts)), "paths in parts")
                    self.paths.append(PathOfParts(texts[0].at, str(PATHS[name](*texts)), f"{why}, in parts"))

    def _note_state(self, built: object, state: object) -> None:
        what = built.what if isinstance(built, Inert) else None
        if what in WITH_ATTRIBUTES and isinstance(state, Inert) and state.what == "dict":
            self.attributes.append(state)
        else:
            self.needed.append((state, f"in the state of {_words(what)}"))


def _words(what: object) -> str:
    return one_line(str(what)) if isinstance(what, Global) else "a call"


def _mark_needed(top: object, reason: str, seen: set[int]) -> None:
    """Mark all texts in a value as needed, those of whatever it holds, too."""
    for value in walked(top, seen=seen):
        if isinstance(value, SavedText):
            value.needed = value.needed or reason


def _mark_data(top: object, needed: set[int]) -> Iterator[Sequence[object]]:
    """Mark the texts in a value that are data; the keys of each dict and the elements of each set.

    Args:
        needed: the ids of values whose texts have been marked as needed; added to.
    """
    stack, seen = [top], set[int]()
    while stack:
        value = stack.pop()
        if isinstance(value, SavedText):
            value.is_data = True
        if not isinstance(value, Inert | list | tuple) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, list | tuple):
            stack += value
            continue
        elements = set_of(value)
        keys: Sequence[object] = ()
        if elements is not None:
            keys = elements[1]
        elif value.what in DICTS:
            keys = [key for key, _ in value.pairs]
            stack += [item for _, item in value.pairs]
        elif value.what not in WITH_ATTRIBUTES:  # its arguments and its state are marked
            _mark_needed(value, f"in {_words(value.what)}", needed)
        if value.what in WITH_ATTRIBUTES and isinstance(value.state, Inert):
            stack += [item for _, item in value.state.pairs]
        for key in keys:
            if isinstance(key, SavedText):
                key.is_key = True
            else:
                _mark_needed(key, "part of a key that isn't a text", needed)
        if keys:
            yield keys


def with_texts(data: memoryview, saved: SavedTexts, texts: Mapping[int, str]) -> bytes:
    """A pickle with other texts.

    Args:
        data: the pickle.
        saved: its texts.
        texts: the new ones, by the byte of the old ones.
    """
    changes = [
        (text.at, text.end, _instruction(texts[text.at], saved.protocol))
        for text in saved.texts
        if text.at in texts
    ]
    grown = _grown(saved.frames, changes, len(data))
    changes += [
        (begin - FRAME_BYTES + 1, begin, (end - begin + more).to_bytes(8, "little"))
        for (begin, end), more in zip(saved.frames, grown, strict=True)
    ]
    pieces: list[bytes | memoryview] = []
    last = 0
    for begin, end, new in sorted(changes):
        pieces += [data[last:begin], new]
        last = end
    return b"".join([*pieces, data[last:]])


def _instruction(text: str, protocol: int) -> bytes:
    """The instruction that Python's pickler writes for a text."""
    data = text.encode(errors="surrogatepass")
    return text_head(len(data), protocol) + data


def _grown(
    frames: Sequence[tuple[int, int]], changes: Sequence[tuple[int, int, bytes]], size: int
) -> list[int]:
    """By how many bytes each frame of a pickle grows; changes are in its order, as frames are."""
    grown, at, last = [0] * len(frames), 0, 0
    for number, (begin, end) in enumerate(frames):
        if begin - FRAME_BYTES < last or end > size:
            raise ArchiveError(
                place=f"byte {begin - FRAME_BYTES}",
                expected="a frame after the one before, within the pickle",
                found=f"one from byte {begin} to {end}",
            )
        last = end
        while at < len(changes) and changes[at][0] < end:
            first, stop, new = changes[at]
            if first >= begin:
                if stop > end:
                    raise ArchiveError(
                        place=f"byte {first}",
                        expected="a text in one frame",
                        found="the end of a frame in it",
                    )
                grown[number] += len(new) - (stop - first)
            at += 1
    return grown


def check_same_but(old: memoryview, new: memoryview, texts: Mapping[int, str]) -> None:
    """Refuse a pickle that differs in more than some texts, or whose frames end at other places.

    Args:
        old: a pickle.
        new: another.
        texts: what stands in the new one, by the byte in the old one.
    """
    try:
        _compare(_instructions(old), _instructions(new), texts)
    except ValueError as error:  # of pickletools, or of zip where one is longer
        raise ArchiveError(expected="the same pickle but for texts", found=str(error)) from error


class _Instruction(NamedTuple):
    name: str
    argument: Any
    at: int
    data: memoryview


def _instructions(data: memoryview) -> Iterator[_Instruction]:
    """The instructions of a pickle, each with its bytes, and with what follows the last one."""
    for (op, argument, at), (_, _, end) in pairwise(
        chain(pickletools.genops(bytes(data)), [(None, None, len(data))])
    ):
        if op is not None and at is not None:
            yield _Instruction("text" if op.name in HEADS else op.name, argument, at, data[at:end])


def _compare(olds: Iterator[_Instruction], news: Iterator[_Instruction], texts: Mapping[int, str]) -> None:
    ends = deque[tuple[int, int]]()  # of frames, in the old and in the new pickle
    last = (0, 0)
    for old, new in zip(olds, news, strict=True):
        while ends and ends[0][0] <= old.at:
            before, after = ends.popleft()
            if old.at - before != new.at - after:
                raise ArchiveError(place=f"byte {old.at}", expected="the end of a frame", found="none")
        if old.name == "text":
            is_same = texts.get(old.at, old.argument) == new.argument
        elif old.name == "FRAME":
            is_same = True
            ends.append((old.at + FRAME_BYTES + old.argument, new.at + FRAME_BYTES + new.argument))
        else:
            is_same = old.data == new.data
        if old.name != new.name or not is_same:
            raise ArchiveError(place=f"byte {old.at}", expected=old.name, found=new.name)
        last = old.at + len(old.data), new.at + len(new.data)
    if any(last[0] - before != last[1] - after for before, after in ends):
        raise ArchiveError(expected="frames that end as before", found="others")
