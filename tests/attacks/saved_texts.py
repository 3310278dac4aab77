"""Pickles of `torch.save` whose texts are to be others: what asks for much, lies, or runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.attacks.attack import Attack
from tests.attacks.payloads import COMMAND
from tests.attacks.pieces import again, doubled, kept, pickled, several, text
from tests.attacks.zips import entry, zipped

if TYPE_CHECKING:
    from collections.abc import Callable

REDACT = "redact m.pt -o out.pt --force --replace"
COMMANDS = (f"{REDACT} ann=somebody", f"{REDACT} ann=somebody --partial", f"{REDACT} nobody=x --json")
LONG = f"{REDACT} a={'b' * 1_000}"


def _saved(*pieces: bytes) -> Callable[[], dict[str, bytes]]:
    """A file of torch.save with a pickle."""
    return lambda: _zip(pickled(*pieces))


def _zip(pickle: bytes) -> dict[str, bytes]:
    held = {"data.pkl": pickle, "version": b"3\n"}
    return {"m.pt": zipped(*(entry(f"m/{name}", data) for name, data in held.items()))}


def _frames(size: int) -> dict[str, bytes]:
    """Empty lists, each behind a frame that is said to have so many bytes."""
    frame = b"\x95" + size.to_bytes(8, "little")
    return _zip(b"\x80\4](" + (frame + b"]") * 100_000 + frame + text("ann") + b"e.")


ATTACKS = {
    "200,000 texts to be replaced": Attack(
        "A list of 200,000 texts that all become longer.",
        _saved(b"](", text("ann") * 200_000, b"e"),
        COMMANDS,
        loops=6_000,
    ),
    "one text that becomes a thousand": Attack(
        "A text of 4 MB, each letter of which becomes a thousand.",
        _saved(text(b"a" * 4_000_000)),
        (*COMMANDS, LONG),
        loops=1_500,
    ),
    "100,000 keys that are each other's": Attack(
        "A dict of 100,000 keys, two of which become the same.",
        _saved(b"}(", *(text(f"{at}") + b"N" for at in range(100_000)), text("ann"), b"N", text("x"), b"Nu"),
        (f"{REDACT} ann=x", *COMMANDS),
        loops=6_000,
    ),
    "a text in a tuple of itself": Attack(
        "Two to the power of 1,000 times the same text, in a state and as data.",
        _saved(b"](", doubled(1_000, text("ann")), b"cm\nC\n)\x81", again(999), b"b", again(999), b"e"),
        COMMANDS,
    ),
    "lists in lists around a text": Attack(
        "A text 200,000 lists deep.",
        _saved(b"]" * 200_000, text("ann"), b"a" * 200_000),
        COMMANDS,
        loops=3_000,
    ),
    "frames of nothing": Attack("100,000 frames of no bytes.", lambda: _frames(0), COMMANDS, loops=3_000),
    "frames of frames": Attack(
        "100,000 frames, each over all that follow.", lambda: _frames(1 << 20), COMMANDS, loops=3_000
    ),
    "a frame without end": Attack(
        "A frame of more bytes than any file has.", lambda: _frames((1 << 64) - 1), COMMANDS, loops=3_000
    ),
    "a text that is run and thrown away": Attack(
        "The text to be replaced is the argument of a call whose result is taken off the stack.",
        _saved(kept(text(f"{COMMAND} # ann"), 0), b"cos\nsystem\n", again(0), b"\x85R00](", again(0), b"e"),
        COMMANDS,
    ),
    "a text that names what is run": Attack(
        "The text to be replaced is the name of a function, too.",
        _saved(kept(text("ann"), 0), kept(text("os"), 1), b"0", again(0), b"\x93", text(COMMAND), b"\x85R"),
        COMMANDS,
    ),
    "many arguments that are one": Attack(
        "100,000 calls with the same arguments.",
        _saved(
            b"](",
            kept(several(text("ann")), 0),
            *(b"cm\nC\n" + again(0) + b"R" for _ in range(100_000)),
            b"e",
        ),
        COMMANDS,
        loops=4_000,
    ),
}
