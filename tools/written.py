"""Print a digest of everything that the commands write and print for each file under ``fixtures/``.

    python -m tools.written > before.tsv        in one checkout
    python -m tools.written > after.tsv         in another
    diff before.tsv after.tsv                   nothing: both write the same bytes

A line is: file, command, blake2b of what it writes or prints; or the error that it ends in. Each log is
explained by the archives beside it.
"""

from __future__ import annotations

import hashlib
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from click.testing import CliRunner

import archive
from archive.cli.commands import group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
TARGETS = ["1.4", "1.6", "1.8", "1.9", "1.11", "2.13", "original"]
LAYOUTS = ["packed", "mapped"]
DIGEST_BYTES = 16
READ = {
    ".pt",
    ".ptl",
    ".pt2",
    ".ptdbg",
    ".etrecord",
    ".so",
    ".json",
    ".safetensors",
    ".pte",
    ".onnx",
    ".zip",
    ".tar",
}
PRINTED = [
    ["inspect", "--json"],
    ["inspect"],
    ["verify"],
    ["sizes", "--json"],
    ["sizes", "--by", "module"],
    ["leaks", "--json"],
    ["leaks"],
    ["digest", "--parts"],
]
REDACTED = [["--paths", "basename"], ["--for", "publish"], ["--for", "vendor"]]


def main() -> None:
    """Print the lines, in the order of the archives."""
    files = sorted(path for path in FIXTURES.rglob("*") if path.suffix in READ | {".txt", ".log"})
    with ProcessPoolExecutor() as pool:
        for lines in pool.map(_lines, files, chunksize=4):
            sys.stdout.writelines(f"{line}\n" for line in lines)


def _lines(file: Path) -> list[str]:
    name = file.relative_to(FIXTURES).as_posix()
    with TemporaryDirectory() as folder:
        facts = [*_written(file, Path(folder))] if file.suffix in {".pt", ".ptl"} else []
        facts += _printed(file, Path(folder)) if file.suffix in READ else [_explained(file)]
        return [f"{name}\t{what}\t{digest}" for what, digest in facts]


def _printed(file: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """What each command prints about a file, and what redacts it."""
    for words in PRINTED:
        yield " ".join(words), _output([*words, file.name], file.parent)
    out, companion = folder / "redacted", folder / "taken"
    for rules in REDACTED:
        yield (
            f"redact {' '.join(rules)}",
            _output(
                ["redact", file.name, "-o", out, "-c", companion, *rules, "--partial", "--force"],
                file.parent,
                folder,
            ),
        )
        for path in (path for path in (out, companion) if path.exists()):
            yield f"redact {' '.join(rules)}: {path.name}", _digest(lambda: None, path, is_new=False)


def _explained(log: Path) -> tuple[str, str]:
    return "symbolicate", _output(["symbolicate", "."], log.parent, log=log.read_bytes())


def _output(words: list[str | Path], cwd: Path, made: Path | None = None, log: bytes = b"") -> str:
    """A digest of what a command prints, without the folder that it makes files in; its exit status."""
    with chdir(cwd):
        done = CliRunner().invoke(group, [*map(str, words)], input=log)
    text = done.output_bytes.replace(str(made).encode(), b"") if made else done.output_bytes
    return f"{hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()} {done.exit_code}"


def _written(file: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """What each command writes: its name, and the digest or the error."""
    out, companion, back = folder / "out", folder / "companion", folder / "back"
    for layout in LAYOUTS:
        split = partial(archive.split, file, out, companion, layout=layout, force=True)
        yield f"split {layout}", _digest(split, out, companion)
        join = partial(archive.join, out, companion, out=back, force=True)
        yield f"join {layout}", _digest(join, back)
    yield "shrink compact", _digest(partial(archive.shrink, file, out, force=True), out)
    yield "shrink embed", _digest(partial(archive.shrink, file, out, level="embed", force=True), out)
    yield "restore", _digest(partial(archive.restore, out, back, force=True), back)
    for to in TARGETS:
        migrate = partial(archive.migrate, file, out, to=to, lossy=True, force=True)
        yield f"migrate {to}", _digest(migrate, out)


def _digest(work: Callable[[], object], *files: Path, is_new: bool = True) -> str:
    """Of the files that are written, one after the other."""
    for file in files if is_new else ():
        file.unlink(missing_ok=True)
    try:
        work()
    except (archive.ArchiveError, FileNotFoundError) as error:
        return f"error: {error}".replace(f"{files[0].parent}/", "").replace(f"{FIXTURES}/", "")
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for file in files:
        state.update(file.read_bytes())
    return state.hexdigest()


if __name__ == "__main__":
    main()
