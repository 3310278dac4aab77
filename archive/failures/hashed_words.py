"""The names that hashes of a redacted archive stand for, in any line of a log.

PyTorch also names attributes, arguments and classes in messages: ``forward() is missing value for argument
'a60d9c411'``. A companion has the key of the hashes, and the records whose words became hashes.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.strings import decoded
from archive.companion.hashed_names import HASH, hashed
from archive.container.names import as_bytes
from archive.formats.record_kinds import is_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.failures.one_model import OneModel
    from archive.reader.companion import Companion

WORD, QUOTED = re.compile(r"\w+"), re.compile(r'"([^"\n]+)"')
"""Names; attributes that aren't identifiers stand in quotes."""


def names_of(model: OneModel) -> dict[bytes, bytes]:
    """The words of a model by their hashes; none where its names are known as they are."""
    companion = model.archive.companion
    return {} if companion is None else names_by_hash(companion)


def names_by_hash(companion: Companion) -> dict[bytes, bytes]:
    """The words of a companion by their hashes; none where its archive kept its names.

    A hash that two words have is left out.
    """
    if not companion.salt:
        return {}
    words = set[str]()
    for text in _texts(companion):
        more = {*WORD.findall(text), *QUOTED.findall(text)} - words
        memory.take(sum(map(len, more)) + memory.ROW * len(more), "names by their hashes")
        words |= more
    hashes = {word: hashed(word, companion.salt).encode() for word in words}
    times = Counter(hashes.values())
    return {digest: as_bytes(word) for word, digest in hashes.items() if times[digest] == 1}


def _texts(companion: Companion) -> Iterator[str]:
    """The texts in which names stand: generated code, call stacks, source text, metadata of programs."""
    contents = companion.contents
    yield companion.qualified_top
    for name, data in contents.raw_records.items():
        if is_code(name):
            yield decoded(bytes(data))
    for number in range(len(contents.strings)):
        yield decoded(bytes(contents.strings.data(number)))


def unhashed(text: bytes, names: Mapping[bytes, bytes]) -> bytes:
    """A text, with the names that its hashes stand for."""
    return HASH.sub(lambda found: names.get(found[0], found[0]), text) if names else text
