"""Texts of few letters that stand for other bytes: base64, base32, base85 and hexadecimal digits.

Names and paths have such letters, too: a run counts as encoded if the result is text, or begins like a
pickle, a zip or a compressed stream. Any other long run of base64 is masked if its letters are random: a path
can stand in it only by chance.
"""

from __future__ import annotations

import base64
import codecs
import math
import re
from collections import Counter, defaultdict
from contextlib import suppress
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from archive.base.patterns import pattern_of
from archive.base.quick_dataclass import dataclass
from archive.privacy.pieces.escaped_layers import ESCAPES
from archive.privacy.pieces.framed import framed
from archive.privacy.pieces.long_runs import bits_of, long_runs
from archive.privacy.pieces.packed import PACKED
from archive.privacy.pieces.pickle_strings import OLD, OLD_FIRST, is_pickle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.privacy.pieces.joined import Joined

ALPHANUMERIC = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
TENSORS = pattern_of(
    rb"GGUF[\1-\x0f]\0{3}|.{5}\0{3}\{[ \"}]|\x08[\1-\x20][\x12\x1a\x22\x2a\x32\x3a\x42]"
    rb"|\x80[\2-\5](?:\x95.{8})?\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\.",
    re.DOTALL,
)
"""First bytes of files of tensors that aren't zips: GGUF, safetensors, ONNX, ``torch.save`` before 1.6."""
FILES = pattern_of(
    rb"\x80[\x02-\x05]|PK\x03\x04|\x1f\x8b\x08|\x28\xb5\x2f\xfd|\xfd7zXZ|BZh[1-9]|\x78[\x01\x5e\x9c\xda]|\x7fELF"
    rb"|\x5d\0\0[\0-\x80]|" + TENSORS.pattern,
    re.DOTALL,
)
"""First bytes of pickles, zips, compressed streams, shared objects and files of tensors."""
MAGICS = (*(b"\x80%c" % number for number in range(2, 6)), b"PK", b"\x1f\x8b", b"\x28\xb5", b"\xfd7", b"BZ")
MAGICS += (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x7fE", b"]\0", b"}q", b"]q", b"(X", b"(U")
"""First two bytes of them."""
TEXT = bytes({*range(32, 127), *b"\t\n\r"})
LATIN_HEADS = (
    *OLD_FIRST,
    b"\xc2\x80",
    b"PK",
    b"\x1f",
    b"\x28\xc2",
    b"\xc3\xbd",
    b"BZh",
    b"\x78",
    b"\x7f",
    b"\x5d\0",
)
"""First bytes of files in Latin-1 as UTF-8, which pickles of protocol 2 have for ``bytes``."""
LATIN_FIRST = frozenset(head[:1] for head in LATIN_HEADS)
"""The very first of them: nearly all strings begin with another."""
IN_LATIN = pattern_of(rb"\xc2[\x80-\x9f]|[\0-\x08]")
"""Controls, which texts in UTF-8 lack and bytes in Latin-1 have."""
FIRST_WIDE = 0x80
"""The first byte that stands for no character of ASCII."""
LINE = 60
"""Letters of the shortest line of base64 in lines."""
MASKED = 512
"""Letters of the shortest run that is masked."""
SAMPLE = 4096
FEWEST_IN_COLUMNS = 1 << 12
"""Bytes of a text below which runs are found sooner one by one."""
BITS = 4.8
"""Bits of entropy per letter of a long run that isn't text: words have some 4, base64 nearly 6."""


@dataclass(frozen=True)
class Letters:
    """A way to write bytes in letters.

    Attributes:
        name: what it is called.
        alphabet: the letters.
        shortest: letters of the shortest run that is decoded: chance makes no text of this many bytes.
        head: the beginning of runs that stand for text or for a file; others are not decoded.
        run: a run, from its first letter on.
        read: the bytes that letters stand for; raises ValueError for letters that stand for none.
    """

    name: str
    alphabet: bytes
    shortest: int
    head: re.Pattern[bytes]
    run: re.Pattern[bytes]
    read: Callable[[bytes], bytes]

    @cached_property
    def classes(self) -> bytes:
        """Translates bytes to ``a`` for letters, to 0 for others."""
        return bytes(ord("a") if code in self.alphabet else 0 for code in range(256))

    def stretches(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Where runs long enough to be decoded begin and end. Bytes are found sooner than patterns."""
        classes, fewest = text.translate(self.classes), b"a" * self.shortest
        at = classes.find(fewest)
        while at >= 0:
            end = classes.find(b"\0", at)
            end = end if end >= 0 else len(text)
            yield at, end
            at = classes.find(fewest, end)

    def decoded(self, letters: bytes) -> bytes | None:
        """What a run stands for; None where that is neither text nor a known file."""
        try:
            head = self.read(letters[: self.shortest])
            if not (FILES.match(head) or OLD.match(head) or _is_text(head) or _is_wide(head)):
                return None
            data = self.read(letters)
        except ValueError:
            return None
        return data if is_file(data) or _is_text(data) or _is_wide(data) else None


def _of_base64(run: bytes) -> bytes:
    letters = run.replace(b"\r", b"").replace(b"\n", b"").rstrip(b"=")
    if len(letters) % 4 == 1:  # one letter is less than a byte
        letters = letters[:-1]
    other = b"-_" if b"-" in run or b"_" in run else None
    return base64.b64decode(letters + b"=" * (-len(letters) % 4), other)


def _of_base32(run: bytes) -> bytes:
    letters = run.rstrip(b"=").upper()
    whole = len(letters) - {1: 1, 3: 1, 6: 1}.get(len(letters) % 8, 0)  # letters that don't make a byte
    return base64.b32decode(letters[:whole] + b"=" * (-whole % 8))


def _of_hex(run: bytes) -> bytes:
    return bytes.fromhex(run[: len(run) & ~1].decode())


def _heads85(letters: bytes) -> bytes:
    """A pattern of the beginning of base85 that stands for a file: two letters nearly fix two bytes."""
    seconds: dict[int, set[int]] = defaultdict(set)
    for magic in MAGICS:
        low, high = (int.from_bytes(magic.ljust(4, fill)) // 85**3 for fill in (b"\0", b"\xff"))
        for number in range(low, high + 1):
            seconds[letters[number // 85]].add(letters[number % 85])
    return b"|".join(
        re.escape(bytes([first])) + b"[" + re.escape(bytes(sorted(second))) + b"]"
        for first, second in sorted(seconds.items())
    )


WIDE_IN_BASE64 = (
    rb"[I-Za-f][AQgw][AB].A[A-H][AEIMQUYcgkosw048]A|A[A-H][AEIMQUYcgkosw048]A[I-Za-f][AQgw][AB]."
    rb"|//[45]|/v8|__[45]|_v8"
)
"""ASCII in UTF-16 of either byte order, and the marks of these."""
WIDE_IN_HEX = rb"(?:[2-7][0-9A-Fa-f]00){4}|(?:00[2-7][0-9A-Fa-f]){4}|[fF][fF][fF][eE]|[fF][eE][fF][fF]"
ASCII = rb"[I-Za-f][C-HS-Xi-nyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589]."
"""Three bytes of ASCII in base64."""
BASE64 = Letters(
    "base64",
    ALPHANUMERIC + b"+/-_",
    24,
    pattern_of(
        rb"(?:"
        + ASCII
        + rb"){2}|[CDw-z0-7]|gA|UEsDB|H4sI|KLUv|/Td6|_Td6|Qlpo|eA[E-H]|eF[4-7]|eJ[w-z]|eN[o-r]|f0VM|XQAA"
        + rb"|[fX][XS]|K[FG]|R0dV|.{8}AAB7[IC]|"
        + WIDE_IN_BASE64,
        re.DOTALL,
    ),
    pattern_of(rb"(?:[A-Za-z0-9+/]{60,76}\r?\n)+[A-Za-z0-9+/]{1,76}={0,2}|[A-Za-z0-9+/_-]++={0,2}"),
    _of_base64,
)
"""In lines, as e-mail has it, or in one."""
HEX = Letters(
    "hexadecimal digits",
    b"0123456789ABCDEFabcdef",
    24,
    pattern_of(
        rb"(?:[2-7c-fC-F][0-9A-Fa-f]|09|0[aAdD]|[89abAB][0-9A-Fa-f]){8}|80|50|1[fF]|28|[fF]d|42|78|5[dD]|08|47475546"
        rb"|.{10}0{6}7[bB]2|" + WIDE_IN_HEX
    ),
    pattern_of(rb"[0-9A-Fa-f]++"),
    _of_hex,
)
BASE32 = Letters(
    "base32",
    ALPHANUMERIC[:52] + b"234567",
    32,
    pattern_of(rb"(?:[A-Z2-7]{32}|[a-z2-7]{32})"),
    pattern_of(rb"(?:[A-Z2-7]++|[a-z2-7]++)={0,6}"),
    _of_base32,
)
IN_BASE85 = b"0123456789" + ALPHANUMERIC[:52] + b"!#$%&()*+-;<=>?@^_`{|}~"
BASE85 = Letters(
    "base85",
    IN_BASE85,
    25,
    pattern_of(rb"(?:[3A-Za-e][%s]{4}){4}|" % re.escape(IN_BASE85) + _heads85(IN_BASE85)),
    pattern_of(rb"[%s]++" % re.escape(IN_BASE85)),
    base64.b85decode,
)
IN_ASCII85 = bytes(range(ord("!"), ord("u") + 1))
ASCII85 = Letters(
    "Ascii85",
    IN_ASCII85 + b"z",
    25,
    pattern_of(rb"(?:[$+-I][%s]{4}){4}|" % re.escape(IN_ASCII85) + _heads85(IN_ASCII85)),
    pattern_of(rb"[%sz]++" % re.escape(IN_ASCII85)),
    base64.a85decode,
)
WAYS = (BASE64, HEX, BASE32, BASE85, ASCII85)
"""All ways that are read."""
OTHER_ALPHABETS = (BASE85, ASCII85)
"""Those whose letters are not all letters of base64, too: no run of the rest is longer than one of base64."""


class EncodedRun(NamedTuple):
    """A stretch of a text that is encoded.

    Attributes:
        start: its first letter.
        end: after its last one.
        data: what it stands for; None where that is neither text nor a known file.
        is_masked: whether its letters reveal nothing: they are many, and random.
        how: it is encoded.
    """

    start: int
    end: int
    data: bytes | None
    is_masked: bool
    how: str


def runs(text: bytes, ways: Iterable[Letters]) -> Iterator[EncodedRun]:
    """What is encoded in a text: runs that are decoded, or masked."""
    for way in ways:
        end = 0
        for at, stop in way.stretches(text):
            if at < end:  # a run in lines goes on
                continue
            run = way.run.match(text, at)
            end = run.end() if run else stop
            data = way.decoded(text[at:end]) if way.head.match(text, at) else None
            is_masked = (
                way is BASE64 and end - at >= MASKED and entropy(text[at : min(end, at + SAMPLE)]) >= BITS
            )
            if data is not None or is_masked:
                yield EncodedRun(at, end, data, is_masked, way.name)


def _stretches(text: bytes) -> Iterable[tuple[Letters, int, int]]:
    """Where runs of each way begin and end, way by way."""
    if len(text) < FEWEST_IN_COLUMNS:
        found64 = [(BASE64, at, end) for at, end in BASE64.stretches(text)]
        others = WAYS[1:] if found64 else OTHER_ALPHABETS
        return [*found64, *((way, at, end) for way in others for at, end in way.stretches(text))]
    found = long_runs(text, bits_of_ways(), [way.shortest for way in WAYS])
    return ((WAYS[number], at, end) for number, at, end in found)


@cache
def bits_of_ways() -> bytes:
    """Translates bytes to a bit for each way that they are letters of."""
    return bits_of(way.alphabet for way in WAYS)


def ways_in(joined: Joined) -> dict[int, list[Letters]]:
    """The ways in which texts, with NUL between them, may be encoded in part, by their numbers."""
    ways: dict[int, list[Letters]] = defaultdict(list)
    data = joined.data
    for way, at, end in _stretches(data):  # by their letters, and by the first ones
        if way.head.match(data, at) or (
            way is BASE64 and (end - at >= MASKED or (end - at >= LINE and data[end : end + 1] in b"\r\n"))
        ):
            number = joined.number(at)
            if way not in ways[number]:
                ways[number].append(way)
    return ways


def from_latin(text: bytes) -> bytes | None:
    """The file or other bytes that a string is in Latin-1; None for other strings."""
    if text.isascii() and OLD.match(text):
        return None
    try:
        data = text.decode().encode("latin-1")
    except UnicodeError:
        return None
    is_bytes = not text.isascii() and (b"\0" in text or framed(data) is not None)
    return data if is_file(data) or is_bytes else None


def is_file(data: bytes) -> bool:
    """Whether bytes aren't text: a pickle, a zip, a stream."""
    return FILES.match(data) is not None or is_pickle(data)


def _is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8 without controls, the last character perhaps cut."""
    odd = data.translate(None, TEXT)
    if odd and min(odd) < FIRST_WIDE:
        return False
    try:
        data.decode()
    except UnicodeDecodeError as problem:
        return problem.end == len(data)
    return True


def _is_wide(data: bytes) -> bool:
    """Whether bytes are text of UTF-16 in either byte order, nearly all of it Latin."""
    if b"\0" not in data:
        return False
    whole = data[: len(data) & ~1].removeprefix(codecs.BOM_UTF16_LE).removeprefix(codecs.BOM_UTF16_BE)
    for codec, high in (("utf-16-le", whole[1::2]), ("utf-16-be", whole[::2])):
        if high.count(0) * 8 >= len(high) * 7 and len(high) > 0:
            with suppress(UnicodeDecodeError):
                text = whole.decode(codec)
                return all(letter.isprintable() or letter in "\t\r\n" for letter in text)
    return False


def entropy(letters: bytes) -> float:
    """Bits of entropy per letter."""
    counts = Counter(letters).values()
    return -sum(count / len(letters) * math.log2(count / len(letters)) for count in counts)


# --- all ways to write a text

WIDE = ("UTF-16", "UTF-32")
AS_STORED = ("UTF-8", *WIDE)
"""What texts are looked for in everywhere, in the bytes of tensors, too."""
ENCODINGS = (*AS_STORED, "JSON's escapes", *ESCAPES, *(way.name for way in WAYS))
"""What texts are looked for in outside of tensors."""


def searched() -> str:
    """What ``leaks`` and the proof of ``redact`` go through, in words."""

    def listed(names: tuple[str, ...]) -> str:
        return f"{', '.join(names[:-1])} and {names[-1]}"

    return (
        f"in {listed(ENCODINGS)}, in what {listed(PACKED)} packed; in tensors in {listed(AS_STORED)}; "
        "a list of folders that has no root and no file is not read as a path"
    )
