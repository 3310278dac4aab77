"""Files that ask for much by few bytes, by what they repeat; and the commands, as words, that run on them.

Each case takes the number of repetitions.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from archive.companion.codecs import Codec, zstd
from archive.formats.effects import EFFECTS
from archive.formats.record_kinds import BYTECODE, DATA
from archive.normalform.columns import BY_NAME
from tests.costs import pickled
from tests.costs.companions import COMPANIONS
from tests.costs.measuring import Task
from tests.costs.pickled import HEAD, STOP, Repeated, integer, integers, sequence, text
from tests.fuzz.mutations import Stored, records, zipped
from tests.support.corpus import CALLSTACKS, HANDLES, PATHS, RELEASES
from tests.support.hostile_companions import body, line, solid

if TYPE_CHECKING:
    from collections.abc import Callable

    Files = dict[str, bytes]
    Case = Callable[[int], Files]

MODEL, COMPANION, LOG = "m.ptl", "m.ptdbg", "log"
BASE = RELEASES / "torch-2.13.0" / "unicode.ptl"
CODE = "code/__torch__/models.py"
RANGES = f"{CODE}.debug_pkl"
CONSTANTS = "constants.pkl"
TRACEBACK = (
    b"Traceback of TorchScript (most recent call last):\n"
    b'  File "%s", line %d, in forward\n    x\n    ~ <--- HERE\n\nRuntimeError: x\n'
)
MARK = b"("


def archive_with(changed: dict[str, bytes]) -> Files:
    """A small archive with some records replaced or added, each deflated."""
    kept = _base()
    root = kept[0].name.partition("/")[0]
    names = {f"{root}/{name}": data for name, data in changed.items()}
    added = [Stored(name, data, deflated=True) for name, data in names.items()]
    return {MODEL: zipped([one for one in kept if one.name not in names] + added)}


@cache
def _base() -> list[Stored]:
    return records(BASE.read_bytes())


def _record(name: str, repeated: Repeated, times: int) -> Files:
    return archive_with({name: repeated.pickle(times)})


# --- texts


def _range(source: bytes, at: int, end: int = 1) -> bytes:
    """A row of inline source ranges with the tag that the small handle has."""
    return sequence(integer(at), sequence(source, integer(0), integer(end)), integer(at))


def _source(written: bytes) -> bytes:
    return sequence(text(written), text(b"m.py"), integer(1))


def _one_source(motif: bytes, times: int) -> Files:
    """A source of repeated text."""
    return archive_with({RANGES: HEAD + sequence(_range(_source(motif * times), 0)) + STOP})


def _several_sources(motif: bytes, times: int) -> Files:
    """Sources that are long beginnings of one another, so that their lines are shared."""
    root = max(1, int(times**0.5))
    rows = [_range(_source(motif * (root + at)), at) for at in range(root)]
    return archive_with({RANGES: HEAD + sequence(*rows) + STOP})


def _pieced_source(times: int) -> Files:
    """One long string that is a piece of a source many times, in many sources."""
    table = sequence(text(b""), text(b"x" * times + b"\n"))
    pieced = sequence(integers(b"K\1" * max(1, times // 64)), integer(0), integer(0))
    rows = sequence(*(_range(pieced, at) for at in range(8)))
    return archive_with({RANGES: HEAD + sequence(text(pickled.MARKER), table, rows) + STOP})


def _long_range(motif: bytes, at: int, times: int) -> Files:
    """A range of a long text, from some byte on; if it is not all of it, each of its lines is marked."""
    written = motif * max(1, times // len(motif))
    row = _range(_source(written), 0, max(1, len(written) - at))
    return archive_with({RANGES: HEAD + sequence(row) + STOP, CALLSTACKS: _handles([1], 1)})


def _code(motif: bytes, times: int) -> Files:
    """Generated code of repeated text, and a log that points into it."""
    log = (
        b"Traceback of TorchScript (most recent call last):\n"
        b'  File "%s", line %d, in forward\n    x\n    ~ <--- HERE\n\nRuntimeError: x\n'
        % (CODE.encode(), max(1, times // 2))
    )
    return {**archive_with({CODE: motif * times}), LOG: log}


# --- handles and logs


def _stack(frames: int) -> bytes:
    return b"(NK\0" * frames + b"N" + (text(b"f") + b"t") * frames


def _handles(numbers: list[int], frames: int) -> bytes:
    """A call-stack map whose handles share one call stack."""
    first, *rest = (sequence(integer(one), integer(0), text(b"aten::add"))[:-1] for one in numbers)
    rows = [first + _stack(frames) + b"r\xff\0\0\0t", *(one + b"j\xff\0\0\0t" for one in rest)]
    return HEAD + sequence(*rows) + STOP


def _failure(digits: bytes) -> bytes:
    return b"expected\n  Debug info for handle(s): debug_handles:{%s}, was not found.\n" % digits


def _digits(times: int) -> Files:
    """Equal digits that can be split in many ways, each handle with a call stack of 4,000 frames."""
    numbers = [int("1" * length) for length in range(1, 10)]
    files = archive_with({CALLSTACKS: _handles(numbers, min(4_000, times))})
    return {**files, LOG: _failure(b"1" * max(8, times.bit_length()))}


def _failures(times: int) -> Files:
    """Many failures of one long call stack."""
    files = archive_with({CALLSTACKS: _handles([1], 4_000)})
    return {**files, LOG: _failure(b"1") * (times // 64)}


def _long_digits(times: int) -> Files:
    """Lines of a hundred equal digits."""
    files = archive_with({CALLSTACKS: _handles([int("1" * length) for length in range(1, 19)], 1)})
    return {**files, LOG: _failure(b"1" * 100) * (times // 256)}


def _printed(times: int) -> Files:
    """One handle whose call stack prints a long line a frame."""
    source = _source(b"x" * max(1, times // 4_000))
    files = {RANGES: HEAD + sequence(_range(source, 0)) + STOP, CALLSTACKS: _handles([1], 4_000)}
    return {**archive_with(files), LOG: _failure(b"1")}


def _log(motif: bytes, times: int) -> Files:
    return {**archive_with({}), LOG: motif * times}


# --- zips


def _entries(times: int) -> Files:
    """Many empty entries."""
    files = [
        Stored(f"{_base()[0].name.partition('/')[0]}/code/{at}", b"", deflated=False)
        for at in range(times // 256)
    ]
    return {MODEL: zipped([*_base(), *files])}


def _packages(times: int) -> Files:
    """Many records of source ranges, all empty."""
    root = _base()[0].name.partition("/")[0]
    empty = HEAD + b")" + STOP
    files = [Stored(f"{root}/code/{at}.py.debug_pkl", empty, deflated=False) for at in range(times // 1024)]
    return {MODEL: zipped([*_base(), *files])}


def _saved(repeated: Repeated, times: int) -> Files:
    """A file by ``torch.save``, whose pickle Python's own reader reads."""
    return {MODEL: zipped([Stored("m/data.pkl", repeated.pickle(times), deflated=True)])}


# --- companions


def _rows(columns: tuple[str, ...], times: int) -> Files:
    """A packed companion of columns of equal values, which take no bytes."""
    others = ("string.template", "template.length", "number.value")
    lines = [line(name, times) for name in columns] + [
        line(name, 0) for name in others if name not in columns
    ]
    return {MODEL: solid(body(*lines))}


STRING_COLUMNS = ("string.template", "template.length", "number.value")
COLUMN_SETS = {
    table: tuple(name for name in sorted(BY_NAME) if name.startswith(f"{table}."))
    for table in sorted({name.partition(".")[0] for name in BY_NAME})
}


def _deflated_body(times: int) -> Files:
    """A packed companion with raw records of zeros."""
    made = body(*(line(name, 0) for name in STRING_COLUMNS), rest=bytes(times))
    return {MODEL: solid(zstd(made, 19), len(made), Codec.ZSTD)}


TEXTS = {
    "line feeds": b"\n",
    "letters": b"x",
    "lines": b"    x = 1\n",
    "frames": b'  File "m.py", line 1\n',
    "wide": "語".encode(),
}
OWN = {
    RANGES: pickled.RANGES,
    CALLSTACKS: pickled.HANDLES,
    HANDLES: pickled.METHODS,
    PATHS: pickled.PATHS,
    BYTECODE: pickled.BYTECODE,
    DATA: pickled.DATA,
    CONSTANTS: {},
    EFFECTS: pickled.EFFECTS,
}
PICKLES: dict[str, Case] = {
    f"{record}: {name}": partial(_record, record, repeated)
    for record, own in OWN.items()
    for name, repeated in {**pickled.ANYWHERE, **own}.items()
}
OTHERS: dict[str, Case] = {
    **{f"one source of {name}": partial(_one_source, motif) for name, motif in TEXTS.items()},
    **{f"sources of {name}": partial(_several_sources, motif) for name, motif in TEXTS.items()},
    **{f"a range of most of {name}": partial(_long_range, motif, 1) for name, motif in TEXTS.items()},
    **{f"a range of all {name}": partial(_long_range, motif, 0) for name, motif in TEXTS.items()},
    "pieced source": _pieced_source,
    **{f"code of {name}": partial(_code, motif) for name, motif in TEXTS.items()},
    "equal digits": _digits,
    "failures": _failures,
    "a hundred digits": _long_digits,
    "long lines in frames": _printed,
    "a log of line feeds": partial(_log, b"\n"),
    "a log of headings": partial(_log, b"Traceback of TorchScript (most recent call last):\n"),
    "a log of one line": partial(_log, b"x"),
    "entries": _entries,
    "records of ranges": _packages,
    **{f"torch.save: {name}": partial(_saved, one) for name, one in pickled.ANYWHERE.items()},
    **{f"rows of {name}": partial(_rows, columns) for name, columns in COLUMN_SETS.items()},
    "rows of all tables": partial(_rows, tuple(sorted(BY_NAME))),
    "inflated body": _deflated_body,
}
CASES: dict[str, Case] = {**PICKLES, **OTHERS, **COMPANIONS}


# --- commands

OUT = "out.ptl"
HONEST = "honest.ptl"
"""An honest archive, which another one is compared with."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "inspect": ("inspect", MODEL),
    "inspect as JSON": ("inspect", MODEL, "--json"),
    "effects": ("inspect", MODEL, "--effects"),
    "effects as JSON": ("inspect", MODEL, "--effects", "--json"),
    "sizes": ("sizes", MODEL),
    "verify": ("verify", MODEL),
    "symbolicate a handle": ("symbolicate", MODEL, "1"),
    "symbolicate a log": ("symbolicate", MODEL),
    "split": ("split", MODEL, "-o", OUT, "-c", COMPANION),
    "shrink": ("shrink", MODEL, "-o", OUT, "--level", "compact"),
    "embed": ("shrink", MODEL, "-o", OUT, "--level", "embed"),
    "look up beside": ("symbolicate", MODEL, "1", "-c", COMPANION),
    "join": ("join", MODEL, "-o", OUT, "-c", COMPANION),
    "restore": ("restore", MODEL, "-o", OUT),
    "migrate": ("migrate", MODEL, "-o", OUT, "--to", "1.9"),
    "convert": ("convert", MODEL, "-o", OUT, "--layout", "mapped"),
    "digest": ("digest", MODEL),
    "digest of debug info": ("digest", "--of", "debug", MODEL),
    "leaks": ("leaks", MODEL),
    "leaks as JSON": ("leaks", MODEL, "--json"),
    "redact": ("redact", MODEL, "-o", OUT, "-c", COMPANION, "--for", "publish", "--partial"),
    "redact names": ("redact", MODEL, "-o", OUT, "-c", COMPANION, "--names", "hash", "--partial"),
    "diff": ("diff", HONEST, MODEL),
    "diff as JSON": ("diff", MODEL, HONEST, "--json"),
}


def task(command: str, files: Files) -> Task:
    """A command run on files; where there is a log, it is on standard input."""
    kept = {name: data for name, data in files.items() if name != LOG}
    if HONEST in COMMANDS[command]:
        kept[HONEST] = BASE.read_bytes()
    return Task(COMMANDS[command], kept, files.get(LOG, b""))


def warm() -> list[Task]:
    """Each command on an honest archive."""
    return [task(command, {MODEL: BASE.read_bytes()}) for command in COMMANDS]
