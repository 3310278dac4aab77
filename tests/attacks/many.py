"""Many of one thing in one file: entries, records, tensors, keys, letters; and small lies about weights.

Each is linear in what the file has: a thing that is looked up in a list, or work that is done again for each
thing, shows here. The makers take a number, which ``tests/costs/test_doubling.py`` doubles.
"""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.attacks.attack import MIB, Attack
from tests.attacks.pieces import again, kept, number, pickled, several, text
from tests.attacks.programs import WEIGHTS, archive_with, records
from tests.attacks.tensors import HOOKS, STORAGE
from tests.attacks.zips import LITE, archive_of, entries_of, entry, zipped

if TYPE_CHECKING:
    from collections.abc import Callable

    Files = dict[str, bytes]

ALIKE = list(itertools.product((-1, -2), repeat=12))
"""Tuples that all hash alike: hash(-1) == hash(-2)."""


def code_records(times: int) -> bytes:
    """Records of code, of a function each."""
    return archive_of(
        {**LITE, **{f"code/__torch__/m{at}.py": b"def f(x):\n  return x\n" for at in range(times)}}
    )


def code_letters(times: int) -> bytes:
    """One word, in code."""
    return archive_of({**LITE, "code/__torch__.py": LITE["code/__torch__.py"] + b"a" * 40 * times + b"\n"})


def functions(times: int) -> bytes:
    """Functions of one record."""
    return archive_of(
        {**LITE, "code/__torch__/m.py": b"".join(b"def f%d(x):\n  return x\n" % at for at in range(times))}
    )


def _entries(times: int, name: str, data: bytes = b"") -> bytes:
    return zipped(*entries_of(LITE), *(entry(f"m/{name.format(at)}", data) for at in range(times)))


def empty_records(times: int) -> bytes:
    """Records without a byte."""
    return _entries(times, "extra/{}")


def empty_code(times: int) -> bytes:
    """Records of code without a byte."""
    return _entries(times, "code/{}")


def broken_ranges(times: int) -> bytes:
    """Source ranges without a byte, which are no pickle."""
    return _entries(times, "code/{}.py.debug_pkl")


def small_ranges(times: int) -> bytes:
    """Source ranges of no row."""
    return _entries(times, "code/{}.py.debug_pkl", pickled(b")"))


def words_of_keys(times: int) -> bytes:
    """Beginnings of entries that would tell a key."""
    return archive_of({**LITE, "extra/x": b"token=" * 10 * times})


def lines_of_paths(times: int) -> bytes:
    """Lines of one record, each with a path of its own."""
    lines = b"".join(b"/home/ann/%d/net.py\n" % at for at in range(8 * times))
    return archive_of({**LITE, "extra/x": lines})


def _tensor(at: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    first = (
        kept(b"ctorch._utils\n_rebuild_tensor_v2\n", 0),
        kept(STORAGE + number(4) + b"tQ", 1),
        kept(HOOKS, 2),
    )
    call, storage, hooks = (again(0), again(1), again(2)) if at else first
    sizes, steps = several(*map(number, shape)), several(*map(number, strides))
    return call + several(storage, number(0), sizes, steps, b"\x89", hooks) + b"R"


def keys_alike(times: int) -> bytes:
    """A dict of tensors, whose shapes hash alike, in the module tree."""
    keys = b"".join(_tensor(at, shape, shape) + b"N" for at, shape in enumerate(ALIKE[:times]))
    module = b"c__torch__\nM\n)\x81}(" + text("training") + b"\x88" + text("x") + b"}(" + keys + b"uub"
    return archive_of({**LITE, "data.pkl": pickled(module), "data/0": bytes(16)})


def tensors(times: int) -> bytes:
    """Tensors of a model that torch.save wrote, all in one storage."""
    rows = b"".join(text(f"layer{at}.w") + _tensor(at, (2, 2), (2, 1)) for at in range(times))
    held = {"data.pkl": pickled(b"}(", rows, b"u"), "data/0": bytes(16), "version": b"3\n"}
    return zipped(*(entry(f"m/{name}", data) for name, data in held.items()))


# --- lies about weights


def weights(change: Callable[[dict[str, Any]], object]) -> Files:
    """A program with a changed table of weights."""
    tree = json.loads(records()[WEIGHTS])
    made = change(tree)
    table = json.dumps(tree if made is None else made).encode()
    return archive_with({WEIGHTS: table}, deflate=False)


def _named(tree: dict[str, Any], **fields: object) -> None:
    next(iter(tree["config"].values())).update(fields)


LONG = b"\x8b" + (4_000).to_bytes(4, "little") + b"\1" * 4_000
LIES: dict[str, Callable[[], Files]] = {
    "a weight whose pickle names no record": lambda: weights(
        lambda tree: _named(tree, use_pickle=True, path_name="x")
    ),
    "a name that is none": lambda: weights(lambda tree: _named(tree, path_name=None)),
    "a config of true": lambda: weights(lambda _: {"config": True}),
    "a table of true": lambda: weights(lambda _: True),
    "a row of true": lambda: weights(lambda tree: tree["config"].update(x=True)),
    "strides of true": lambda: weights(
        lambda tree: next(iter(tree["config"].values()))["tensor_meta"].update(strides=[{"as_int": True}] * 2)
    ),
    "an integer of 4,000 bytes": lambda: {
        "m.pt2": zipped(entry("m/data.pkl", pickled(b"](", LONG, b"e")), entry("m/version", b"3\n"))
    },
}
"""What is refused where it is read, and no error of this program; each ``m.pt2``."""

READ = ("inspect m.pt", "verify m.pt", "sizes m.pt", "leaks m.pt", "digest m.pt", "report m.pt -o page.html")
SPLIT = "split m.pt -o small.pt -c c.ptdbg --force"
REDACT = "redact m.pt -o clean.pt -c c.ptdbg --for publish --partial --force"
LYING = ("inspect m.pt2", "verify m.pt2", "sizes m.pt2", "leaks m.pt2", "digest m.pt2", "diff m.pt2 m.pt2")


def one(made: Callable[[int], bytes], times: int) -> Callable[[], Files]:
    """A file of many things."""
    return lambda: {"m.pt": made(times)}


def two(made: Callable[[int], bytes], times: int) -> Callable[[], Files]:
    """The same, and one that has one less."""
    return lambda: {"m.pt": made(times), "n.pt": made(times - 1)}


@cache
def _inflated_keys() -> bytes:
    """16 records of 20 MB, each the same word."""
    packed = entry("m/extra/0", b"token=" * (20 * MIB // 6), deflate=True)
    named = (
        packed._replace(
            local=packed.local._replace(name=b"m/extra/%d" % at),
            central=packed.central._replace(name=b"m/extra/%d" % at),
        )
        for at in range(16)
    )
    return zipped(*entries_of(LITE), *named)


def _alike_texts() -> Files:
    """Twelve paths of 4,000 letters that differ in the middle, and a text that begins like all of them."""
    lines = [b"/home/ann/" + b"a" * (2_000 + at) + b"b" + b"a" * 2_000 for at in range(12)]
    return {"m.pt": archive_of({**LITE, "extra/x": b"\n".join([*lines, b"a" * 4 * MIB])})}


ATTACKS = {
    "70,000 empty entries": Attack(
        "70,000 entries without a byte, in 7 MB.", one(empty_records, 70_000), READ, loops=5_000
    ),
    "70,000 empty records of code": Attack(
        "The same, as records of code.",
        one(empty_code, 70_000),
        ("digest m.pt", SPLIT, REDACT, "report m.pt -o page.html", "migrate m.pt -o new.pt --to 1.9 --force"),
        loops=8_000,
    ),
    "70,000 empty source ranges": Attack(
        "The same, as source ranges, which are no pickle.", one(broken_ranges, 70_000), READ, loops=7_000
    ),
    "20,000 source ranges of no row": Attack(
        "20,000 records of source ranges of four bytes, each a pickle.",
        one(small_ranges, 20_000),
        (*READ, SPLIT, REDACT, "migrate m.pt -o new.pt --to 1.9 --force"),
        loops=8_000,
    ),
    "16,000 records of code": Attack(
        "16,000 records of code, of a function each.",
        two(code_records, 16_000),
        ("inspect m.pt", "verify m.pt", "digest m.pt", "diff m.pt n.pt"),
        loops=2_000,
    ),
    "40,000 tensors": Attack(
        "40,000 tensors in one storage of 16 bytes, as torch.save writes them; in the other file one less.",
        two(tensors, 40_000),
        (*READ, "diff m.pt n.pt"),
        loops=6_000,
    ),
    "4,096 keys that hash alike": Attack(
        "A dict of tensors whose shapes all have one hash, in the module tree.",
        two(keys_alike, len(ALIKE)),
        ("inspect m.pt", "verify m.pt", "digest m.pt", "sizes m.pt --by module", "diff m.pt n.pt"),
    ),
    "one word of 100,000 letters": Attack(
        "A word of 100,000 letters in code.",
        one(code_letters, 2_500),
        ("inspect m.pt", "verify m.pt", "digest m.pt", "leaks m.pt", "diff m.pt m.pt", SPLIT),
    ),
    "words of keys": Attack(
        "16 records of 20 MB of one word that begins a secret, in 330 KB.",
        lambda: {"m.pt": _inflated_keys()},
        ("leaks m.pt", REDACT),
        loops=8_000,
    ),
    "texts that begin alike": Attack(
        "Twelve paths of 4,000 letters, and 4 MB that begin like each of them.",
        _alike_texts,
        ("leaks m.pt", REDACT),
        loops=2_000,
    ),
    **{
        name: Attack(f"{name[0].upper()}{name[1:]}, where a reader expects another value.", made, LYING)
        for name, made in LIES.items()
    },
}
