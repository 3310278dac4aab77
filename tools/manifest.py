"""Write or verify ``fixtures/MANIFEST.tsv``: every fixture with its size, digest, release and origin.

    python tools/manifest.py            write it
    python tools/manifest.py --check    compare it with the files; exit status 1 on any difference

The origin of a release's archive stands in ``releases/MANIFEST.tsv``, that of an oracle in
``oracles/manifest.json``; the few other files are described here.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import sys
from dataclasses import astuple, dataclass, fields
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
NAME = "MANIFEST.tsv"
UNLISTED = {NAME, "README.md"}
ORACLE_RELEASE = "2.13.0"

KINDS = (
    *("checkpoint.pt", "exported.pt2", "flatbuffer.ptl", "legacy.pt", "module.pt", "object.pt", "package.pt"),
    *("package_python.pt", "state_dict.pt", "tensor.pt"),
)
# Files that neither list knows, by path; `*` stands for any name.
DESCRIBED = {
    "companions/v*/*.ptdbg": (
        "",
        "companion of the archive it is named after, as of its version: tools/make_companions.py",
    ),
    "frozen/v*/*/*": ("", "as of a version of our own formats: tools/make_frozen.py"),
    "frozen/v*/batch/a/*": ("", "as of a version of our own formats: tools/make_frozen.py"),
    "stores/v*/*": (
        "",
        "a store as a version of its entries left it: `store add`, `store rm`, without index",
    ),
    "stores/v*/*/*": (
        "",
        "a store as a version of its entries left it: `store add`, `store rm`, without index",
    ),
    "oracles/manifest.json": (ORACLE_RELEASE, "list of the cases: kind of failure, arguments, string table"),
    "exported/*": (ORACLE_RELEASE, "tools/make_exported.py"),
    "exported/legacy/*": (
        ORACLE_RELEASE,
        "tools/make_exported.py: with the records of torch.export.save of PyTorch 2.7",
    ),
    "exported/models/*": ("", "the models of exported programs"),
    "canaries/tokens.tsv": ("", "list of the planted tokens, written by hand"),
    "canaries/models/*": ("", "source of models with planted tokens, written by hand"),
    "canaries/*": (ORACLE_RELEASE, "tools/make_canaries.py"),
    "words/*": ("", "the models whose companions trained the dictionaries: tools/make_words.py"),
    "compiled/*": (ORACLE_RELEASE, "tools/make_compiled.py"),
    "compiled/models/*": ("", "the models of compiled packages"),
    "executorch/*.etdp*": (ORACLE_RELEASE, "tools/make_etdumps.py: by ExecuTorch 1.5.1"),
    "executorch/*.pte*": (ORACLE_RELEASE, "tools/make_executorch_programs.py: by ExecuTorch 1.5.1"),
    "executorch/*": (ORACLE_RELEASE, "tools/make_etrecords.py: by ExecuTorch 1.5.1"),
    "fleet/*": (ORACLE_RELEASE, "tools/make_fleet.py"),
    "oracles/*.unique.txt": (
        ORACLE_RELEASE,
        "the error of what `split` leaves of the case, with unique handles",
    ),
    "oracles/models/*": ("", "model source, written by hand"),
    "oracles/unavailable.pt": (
        ORACLE_RELEASE,
        "lowered.A, lowered to test_backend_unavailable; m.save",
    ),
    "oracles/unavailable_create_warning.txt": (ORACLE_RELEASE, "warning when unavailable.pt was lowered"),
    **dict.fromkeys(
        (f"kinds/{name}" for name in KINDS), (ORACLE_RELEASE, "tools/make_kinds.py: PyTorch's own")
    ),
    "kinds/compiled.pt2": ("", "tools/make_kinds.py: laid out as PyTorch does, without the compiled code"),
    "kinds/etdump.bin": ("", "tools/make_etdumps.py: by ExecuTorch 1.5.1"),
    "kinds/etrecord.bin": ("", "tools/make_kinds.py: by ExecuTorch 1.5.1"),
    "kinds/program.pte": ("", "tools/make_kinds.py: by ExecuTorch 1.5.1"),
    "kinds/models/*": ("", "model source, written by hand"),
    "kinds/*": ("", "tools/make_kinds.py"),
    "releases/MANIFEST.tsv": ("", "list of the releases' archives and of the record layouts in them"),
    "releases/oracle-2.13.0.json": (
        ORACLE_RELEASE,
        "releases/src/check213.py, run in 2.13.0",
    ),
    "saved/save.py": ("", "source of the state dicts of releases, written by hand"),
    **{
        f"saved/torch-{release}.pt": (release, "saved/save.py, run in that release")
        for release in ("1.5.1", "1.6.0", "1.8.1", "1.12.1", "1.13.1", "2.0.1", "2.6.0", "2.7.1")
    },
    "zoo/*": ("", "tools/make_zoo.py: by onnx 1.23, and what it says of the tensors"),
    "training/*": (ORACLE_RELEASE, "tools/make_training.py: torch.save of a checkpoint"),
    "effects/v*/*": (
        ORACLE_RELEASE,
        "effects/counting.pt as of a version of its effects, which is never made again",
    ),
    "effects/*.pt": (ORACLE_RELEASE, "tools/make_effects.py: lowered with its effects by archive.backend"),
    "effects/models/*": ("", "source of models that change their state, written by hand"),
    "refused/*.ptl": (ORACLE_RELEASE, "tools/make_refused.py: written by PyTorch, and refused by it"),
    "refused/models/*": ("", "source of models whose archives PyTorch refuses, written by hand"),
    "releases/src/*": ("", "source of models and of the scripts that made the archives, written by hand"),
    "releases/torch-*/made.json": (
        "",
        "the release's own answers, by src/gen2.py (1.0.1: gen10.py)",
    ),
}
TEXTS = {
    ".jit.stripped.txt": "TorchScript's error, source ranges taken out of {}.pt",
    ".stripped.txt": "lite interpreter's error, source ranges and call stacks taken out of {}.ptl",
    ".jit.txt": "TorchScript's error for {}.pt",
    ".txt": "lite interpreter's error for {}.ptl",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One fixture; the fields are the columns of the table."""

    path: str
    bytes: int
    sha256: str
    release: str
    how_made: str


class UndescribedError(Exception):
    """A fixture whose origin is known nowhere."""


def _release_origins(fixtures: Path) -> dict[str, tuple[str, str]]:
    with (fixtures / "releases" / NAME).open(encoding="utf-8", newline="") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {f"releases/{row['file']}": (row["release"], row["how_made"]) for row in rows}


def _oracle_origins(fixtures: Path) -> dict[str, tuple[str, str]]:
    origins = {}
    for case in json.loads((fixtures / "oracles/manifest.json").read_text(encoding="utf-8")):
        name = case["case"]
        arguments = ", ".join(case.get("args", []))
        table = "string table" if case.get("string_table") else "inline ranges"
        for file in case.get("files", []):
            save = "m._save_to_buffer_for_lite_interpreter" if file.endswith(".ptl") else "m.save"
            origins[f"oracles/{file}"] = f"case {name}, {save}, {table}"
        for suffix, what in TEXTS.items():
            text = what.format(name) if case.get("files") else f"the error of case {name}"
            origins[f"oracles/{name}{suffix}"] = f"{text}, arguments {arguments}" if arguments else text
    return {path: (ORACLE_RELEASE, how) for path, how in origins.items()}


def _origin(path: str, known: dict[str, tuple[str, str]]) -> tuple[str, str]:
    if path in known:
        return known[path]
    folder = Path(path).parent.name
    for pattern, (release, how) in DESCRIBED.items():
        if Path(path).match(pattern):
            return folder.removeprefix("torch-") if folder.startswith("torch-") else release, how
    raise UndescribedError(path)


def rows(fixtures: Path = FIXTURES) -> list[Row]:
    """Describe every file under ``fixtures``, in the order of the paths.

    Raises:
        UndescribedError: neither the lists nor ``DESCRIBED`` say where a file comes from.
    """
    known = _release_origins(fixtures) | _oracle_origins(fixtures)
    found = []
    for file in fixtures.rglob("*"):
        path = file.relative_to(fixtures).as_posix()
        if file.is_file() and path not in UNLISTED and "__pycache__" not in file.parts:
            content = file.read_bytes()
            found.append(Row(path, len(content), hashlib.sha256(content).hexdigest(), *_origin(path, known)))
    return sorted(found, key=lambda row: row.path)


def to_table(listed: list[Row]) -> str:
    """The rows as tab-separated lines under a header."""
    text = io.StringIO()
    table = csv.writer(text, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
    table.writerow(field.name for field in fields(Row))
    table.writerows(astuple(row) for row in listed)
    return text.getvalue()


def differences(fixtures: Path = FIXTURES) -> list[str]:
    """What the table says otherwise than the files: one line for each path, empty when all is well."""
    written = {line.split("\t")[0]: line for line in (fixtures / NAME).read_text("utf-8").splitlines()}
    actual = {line.split("\t")[0]: line for line in to_table(rows(fixtures)).splitlines()}
    said = []
    for path in sorted(written.keys() | actual.keys()):
        if path not in written:
            said.append(f"{path}: not listed")
        elif path not in actual:
            said.append(f"{path}: listed, but missing")
        elif written[path] != actual[path]:
            said.append(f"{path}: listed as {written[path]!r}, found {actual[path]!r}")
    return said


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Write or verify fixtures/MANIFEST.tsv.")
    parser.add_argument("--check", action="store_true", help="compare only; exit status 1 on a difference")
    if parser.parse_args().check:
        said = differences()
        print("\n".join(said) or f"{NAME}: every fixture is as listed")
        return 1 if said else 0
    listed = rows()
    (FIXTURES / NAME).write_text(to_table(listed), encoding="utf-8")
    print(f"{NAME}: {len(listed)} fixtures, {sum(row.bytes for row in listed):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
