"""Payloads: pickles that run a command when Python reads them, by each opcode that can, in each record."""

from __future__ import annotations

import pickle
import struct

from tests.attacks.attack import MARKER, Attack
from tests.attacks.pieces import MARK, pickled, text
from tests.attacks.zips import LITE, archive_of

COMMAND = f"echo ran >{MARKER}"
SYSTEM = b"cos\nsystem\n"
ARGUMENTS = text(COMMAND) + b"\x85"
NAMESPACE = b"ctypes\nSimpleNamespace\n)R"

PAYLOADS = {
    "REDUCE": SYSTEM + ARGUMENTS + b"R",
    "GLOBAL": b"chostile_module\nanything\n",
    "STACK_GLOBAL": text("os") + text("system") + b"\x93" + ARGUMENTS + b"R",
    "INST": MARK + text(COMMAND) + b"ios\nsystem\n",
    "OBJ": MARK + SYSTEM + text(COMMAND) + b"o",
    "NEWOBJ": b"csubprocess\nPopen\n" + MARK + text(f"{COMMAND}") + b"J\xff\xff\xff\xffNNNN\x89\x88t\x81",
    "NEWOBJ_EX": b"csubprocess\nPopen\n" + ARGUMENTS + b"}" + text("shell") + b"\x88s\x92",
    "BUILD": NAMESPACE + b"}" + text("__setstate__") + SYSTEM + b"sb" + text(COMMAND) + b"b",
    "EXT": b"\x82\xf0" + ARGUMENTS + b"R",
    "PERSID": b"P" + COMMAND.encode() + b"\n",
    "BINPERSID": MARK + text("storage") + SYSTEM + ARGUMENTS + b"R" + b"tQ",
    "APPEND": b"]" + SYSTEM + ARGUMENTS + b"Ra",
    "SETITEM": b"}" + text("k") + SYSTEM + ARGUMENTS + b"Rs",
}
"""Opcode → the instructions that use it."""

NESTED = pickle.dumps(None, 2)[:2] + PAYLOADS["REDUCE"] + b"."
PAYLOADS["pickle in a pickle"] = b"c_pickle\nloads\nB" + struct.pack("<I", len(NESTED)) + NESTED + b"\x85R"

RECORDS = (
    "data.pkl",
    "constants.pkl",
    "attributes.pkl",
    "bytecode.pkl",
    "code/m.py.debug_pkl",
    "debug/m.pkl",
    "delegated_backends.debug_pkl",
    "callstack_debug_map.pkl",
    "mobile_debug_handles.pkl",
    "mobile_debug.pkl",
    "extra/effects.pkl",
    ".data/ts_code/0/data.pkl",
)
"""The records that are pickles, in some release of PyTorch or of this project."""
MODULE = {"hostile_module.py": f"import os\nos.system({COMMAND!r})\n".encode()}
"""A module beside the files, whose import runs the command."""
SAVED = "saved.pt"
"""The file that ``torch.save`` writes: a zip whose ``data.pkl`` Python reads, without constants."""


def archives(payload: str) -> dict[str, bytes]:
    """An archive of TorchScript for each record, which holds the payload there; and a file of torch.save."""
    data = pickled(PAYLOADS[payload])
    model = {**LITE, "code/m.py": b"pass\n"}
    made = {f"{number}.pt": archive_of({**model, name: data}) for number, name in enumerate(RECORDS)}
    saved = {"data.pkl": data, "byteorder": b"little", ".data/serialization_id": b"1"}
    return {**made, SAVED: archive_of(saved), **MODULE}


COMMANDS = (
    "inspect {}",
    "inspect {} --effects",
    "verify {}",
    "sizes {} --by source",
    "leaks {}",
    "symbolicate {}",
    "split {} -o s.pt --force",
    "shrink {} -o c.pt --force",
    "migrate {} -o n.pt --to 1.9 --lossy --force",
    "redact {} -o r.pt -c r.ptdbg --for publish --partial --force",
)
LOG = b"no\n\n  Debug info for handle(s): debug_handles:{1}, was not found.\n\n"


def attack(payload: str) -> Attack:
    """A payload in every record, read by every command."""
    names = [*(f"{number}.pt" for number in range(len(RECORDS))), SAVED]
    return Attack(
        f"A command by {payload}, in each of {len(RECORDS)} records, and in a file of torch.save.",
        lambda: archives(payload),
        tuple(command.format(name) for name in names for command in COMMANDS),
        LOG,
    )


ATTACKS = {f"payload by {payload}": attack(payload) for payload in PAYLOADS}
