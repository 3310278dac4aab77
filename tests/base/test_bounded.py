"""The library's boundary: where memory or the stack ends, callers get one error that names the file."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from archive.base.bounded import bounded, bounded_members
from archive.base.errors import ArchiveError, ExhaustedError, LimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENDS = [(MemoryError(), "memory"), (RecursionError("maximum recursion depth exceeded"), "depth")]


@bounded_members
class Reader:
    """Reads a file that takes more than there is."""

    def __init__(self, problem: Exception, file: object = "m.pt") -> None:
        self.problem, self.file = problem, file

    def method(self, *, raises: bool = True) -> str:
        """Read it."""
        return self._read(raises=raises)

    @property
    def attribute(self) -> str:
        """Read it, too."""
        return self._read()

    @cached_property
    def kept(self) -> str:
        """Read it, too."""
        return self._read()

    def __str__(self) -> str:
        return self._read()

    def __bytes__(self) -> bytes:
        return self._read().encode()

    def __getitem__(self, index: int) -> str:
        return self._read()

    def _read(self, *, raises: bool = True) -> str:
        if raises:
            raise self.problem
        return "read"


READINGS: dict[str, Callable[[Reader], object]] = {
    "method": lambda reader: reader.method(),
    "property": lambda reader: reader.attribute,
    "kept property": lambda reader: reader.kept,
    "text": str,
    "bytes": bytes,
    "item": lambda reader: reader[0],
}


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize(("problem", "resource"), ENDS, ids=["memory", "stack"])
def test_each_public_member_is_bounded(name: str, problem: Exception, resource: str) -> None:
    with pytest.raises(ExhaustedError) as raised:
        READINGS[name](Reader(problem))
    error = raised.value
    assert isinstance(error, LimitError)
    assert (error.file, error.resource, error.limit, error.actual) == ("m.pt", resource, 0, 0)
    assert str(error).startswith("m.pt: ")
    assert error.__cause__ is problem
    assert problem.__traceback__ is None  # its frames hold the memory that is missing


def test_bounds_change_nothing_else() -> None:
    reader = Reader(KeyError("nope"))
    assert reader.method(raises=False) == "read"
    assert Reader.attribute.__doc__ == "Read it, too."
    assert Reader.method.__doc__ == "Read it."
    for reading in READINGS.values():
        with pytest.raises(KeyError, match="nope"):
            reading(reader)
    with pytest.raises(MemoryError):
        Reader(MemoryError())._read()


@bounded
def read(source: object = None, *others: object, problem: Exception | None = None) -> object:
    """Read a source."""
    if problem:
        raise problem
    return source, others


@bounded
def pieces(source: object, problem: Exception | None = None) -> Iterator[object]:
    """The pieces of a source."""
    yield source
    if problem:
        raise problem


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("m.pt", "m.pt"),
        (Path("m.pt"), "m.pt"),
        (Reader(MemoryError(), "phone.pt"), "phone.pt"),
        (Reader(MemoryError(), 7), None),
        (b"bytes", None),
    ],
    ids=["path", "Path", "archive", "file without a name", "bytes"],
)
def test_the_error_names_the_first_argument(source: object, file: str | None) -> None:
    with pytest.raises(ExhaustedError) as raised:
        read(source, "other.pt", problem=MemoryError())
    assert raised.value.file == file
    with pytest.raises(ExhaustedError) as raised:
        list(pieces(source, MemoryError()))
    assert raised.value.file == file


def test_without_arguments_no_file_is_named() -> None:
    with pytest.raises(ExhaustedError) as raised:
        read(problem=MemoryError())
    assert raised.value.file is None


def test_what_is_yielded_before_is_had() -> None:
    found = iter(pieces("m.pt", MemoryError()))
    assert next(found) == "m.pt"
    with pytest.raises(ExhaustedError):
        next(found)
    assert list(pieces("m.pt")) == ["m.pt"]
    with pytest.raises(ArchiveError, match="broken"):
        list(pieces("m.pt", ArchiveError("broken")))
    assert read("m.pt", 1) == ("m.pt", (1,))
