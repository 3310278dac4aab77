"""The targets of fuzzing: bytes to a result or one ``ArchiveError``, and nothing else.

Each target reads its input as the library does; what can be built is built again and read once more, and
the two must be the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.fuzz.mutations import Mutation


LONGEST_MESSAGE = 10_000
"""Characters; a name of a record, which may have 4,096 bytes, is shown whole."""


class Target:
    """Something that reads bytes of strangers.

    Args:
        run: reads an input, and asserts what must hold of it.
        seeds: makes well-formed inputs.
        mutate: changes an input by a generator.
    """

    def __init__(
        self, run: Callable[[bytes], None], seeds: Callable[[], Sequence[bytes]], mutate: Mutation
    ) -> None:
        self.run = run
        self.mutate = mutate
        self._seeds = seeds

    @cached_property
    def seeds(self) -> list[bytes]:
        """Well-formed inputs, each once, short ones first."""
        return sorted(set(self._seeds()), key=lambda seed: (len(seed), seed))

    def accepts(self, data: bytes) -> bool:
        """Whether an input is read; refusing it by an ``ArchiveError`` is well, too.

        Raises:
            Exception: anything else is a finding.
        """
        try:
            self.run(data)
        except ArchiveError as refusal:
            _check_message(str(refusal))
            return False
        return True


def _check_message(message: str) -> None:
    """A message is one line, without what a terminal would obey."""
    assert message.isprintable(), "a message that is not printable"
    assert len(message) < LONGEST_MESSAGE, "a long message"


def smallest(found: Sequence[bytes], count: int, longest: int = 1500) -> list[bytes]:
    """Some of the inputs: short ones, and of different lengths, so that all layouts are among them."""
    fitting = sorted({data for data in found if len(data) <= longest}, key=len)
    step = max(1, len(fitting) // count)
    return fitting[::step][:count]
