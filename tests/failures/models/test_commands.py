"""``symbolicate`` with several models, folders, packed logs, and causes instead of the log."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING

import pytest

from archive.reader.recognition.kinds import LOG_KINDS, FileKind
from tests.failures.models.test_three_models import FAILURES, FLEET
from tests.support.commands import called, run
from tests.support.corpus import FIXTURES, NAMED, ORACLES
from tests.support.documents import file_of
from tests.support.reports import case

if TYPE_CHECKING:
    from pathlib import Path

JIT = case("plain_free_functions.jit")
EXPLAINED = "".join(f"INFO running {one.model}\nERROR {one.explained}\n" for one in FAILURES).encode()
FILES = sorted(FLEET.glob("*.ptdbg"))
FIRST = 20
SKIPPED = b"debug-archive: skipped, files of other kinds: 3 (JSON: 1, text: 2)\n"
"""Of the folder of companions, which has logs, too."""
LOG, PLAIN = (
    b"".join((FLEET / name).read_bytes().splitlines(keepends=True)[: 5 * FIRST])
    for name in ("unique.log", "plain.log")
)
LOG_EXPLAINED = "".join(
    f"INFO running {one.model}\nERROR {one.explained}\n" for one in FAILURES[:FIRST]
).encode()
"""The first failures of the logs."""


def test_a_folder_of_companions_explains_the_log_of_all_models() -> None:
    done = run("symbolicate", FLEET, stdin=(FLEET / "unique.log").read_bytes())
    assert (done.returncode, done.stdout) == (0, EXPLAINED)
    said = b"debug-archive: 200 failures, 3 models: 200 explained, 0 ambiguous\n"
    assert done.stderr == SKIPPED + said
    done = run("symbolicate", *FILES, stdin=LOG)
    assert (done.returncode, done.stdout) == (0, LOG_EXPLAINED)
    assert done.stderr == b"debug-archive: 20 failures, 3 models: 20 explained, 0 ambiguous\n"


def test_what_is_ambiguous_stays_and_is_counted_unless_the_log_names_the_models() -> None:
    done = run("symbolicate", FLEET, "--log", FLEET / "plain.log")
    assert done.returncode == 1
    assert b"nothing in the log names the model: 149 failures are explained" in done.stderr
    assert done.stderr.endswith(b"200 failures, 3 models: 149 explained, 51 ambiguous\n")
    assert done.stdout.count(b"was not found") == 51
    named = run("symbolicate", FLEET, "--model", r"running (\w+)", "--log", FLEET / "plain.log")
    assert (named.returncode, named.stdout) == (0, EXPLAINED)
    assert b"nothing in the log" not in named.stderr


@pytest.mark.parametrize("cut", [0, 9])
def test_a_packed_log_is_unpacked(cut: int, tmp_path: Path) -> None:
    """Files that were joined, too; one that is cut short is explained as far as it goes, and told."""
    packed = gzip.compress(LOG)
    log = tmp_path / "app.log.1"
    log.write_bytes(packed + packed[: len(packed) - cut])
    done = run("symbolicate", FLEET, "--log", log)
    assert done.returncode == (2 if cut else 0)
    assert (b"log: its gzip is cut short" in done.stderr) == bool(cut)
    assert (LOG_EXPLAINED * 2).startswith(done.stdout) if cut else done.stdout == LOG_EXPLAINED * 2
    assert done.stdout.startswith(LOG_EXPLAINED)


@pytest.mark.parametrize("end", [b"", b"no gzip"])
def test_what_is_there_of_a_broken_log_is_explained_to_its_last_byte(end: bytes, tmp_path: Path) -> None:
    """The last line, too, which may have been held back for it had no end."""
    text = LOG + b"a line without an en"
    packed = zlib.compressobj(wbits=31)
    log = tmp_path / "app.log.gz"
    log.write_bytes(
        packed.compress(text) + (packed.flush() + end if end else packed.flush(zlib.Z_SYNC_FLUSH))
    )
    done = run("symbolicate", FLEET, "--log", log)
    assert (done.returncode, done.stdout) == (2, LOG_EXPLAINED + b"a line without an en")
    assert b"explained, 0 ambiguous" in done.stderr


def test_a_packed_log_may_end_with_zeros(tmp_path: Path) -> None:
    """As the last block of a tape does."""
    log = tmp_path / "app.log.gz"
    log.write_bytes(gzip.compress(LOG) + bytes(512))
    done = run("symbolicate", FLEET, "--log", log)
    assert (done.returncode, done.stdout) == (0, LOG_EXPLAINED)


def test_a_log_that_only_begins_like_gzip_is_told(tmp_path: Path) -> None:
    log = tmp_path / "app.log.gz"
    log.write_bytes(b"\x1f\x8b" + b"no gzip")
    done = run("symbolicate", FLEET, "--log", log)
    assert done.returncode == 2
    assert b"no gzip" in done.stderr


def test_causes_are_shown_as_a_table_or_as_json() -> None:
    log = FLEET / "unique.log"
    table = called("symbolicate", FLEET, "--log", log, "--top", "3").stdout
    assert "models/ranker.py:91" in table
    assert "197 of other causes" in table
    facts = file_of(called("symbolicate", FLEET, "--log", log, "--json").stdout)
    assert (facts["failures"], facts["explained"], facts["models"]) == (200, 200, 3)
    assert sum(cause["count"] for cause in facts["causes"]) == 200
    first = facts["causes"][0]
    assert (first["file"], first["first_line"]) == ("models/ranker.py", 4)


def test_unique_handles_are_looked_up_in_a_folder() -> None:
    digits = FAILURES[0].unique.partition("{")[2].partition("}")[0]
    done = called("symbolicate", FLEET, digits)
    assert done.exit_code == 0
    assert done.stdout in FAILURES[0].explained + "\n"
    assert "'linear_1' is neither a file nor a handle" in called("symbolicate", FLEET, "linear_1").stderr


def test_handles_of_several_models_are_explained_if_all_that_have_them_agree(tmp_path: Path) -> None:
    """Which ones do is said, by name; where they differ, the error names them."""
    handle = FAILURES[0].plain.partition("{")[2].partition("}")[0]
    owner, *_ = [path for path in FILES if path.stem == FAILURES[0].model]
    differing = called("symbolicate", FLEET, handle)
    assert str(differing.exception).startswith(f"3 models: handle {handle} has ")
    assert f"{owner}" in str(differing.exception)
    assert str(differing.exception).endswith("; give the FILE that failed")
    for number, name in enumerate(("a.ptdbg", "b.ptdbg")):
        shutil.copy(owner, tmp_path / name)
        done = called("symbolicate", tmp_path, case("plain_unicode").path, handle)
        assert (done.exit_code, done.stdout) == (0, called("symbolicate", owner, handle).stdout)
        of = str(tmp_path / "a.ptdbg") + f", {tmp_path / 'b.ptdbg'}: 2 models agree" * number
        assert done.stderr == f"debug-archive: of {of}\n"
    none = called("symbolicate", FLEET, "999999")
    assert str(none.exception) == "none of 3 models has handle 999999"


@pytest.mark.parametrize("quote", ["{%s}", "debug_handles:{%s}"])
@pytest.mark.parametrize("form", ["plain", "unique"])
def test_handles_in_braces_are_what_they_are_in_a_log(quote: str, form: str) -> None:
    """However they are joined, of one model and of several; the summary names the only one that explains."""
    for one in FAILURES[::40]:
        digits = getattr(one, form).partition("{")[2].partition("}")[0]
        line = f"Debug info for handle(s): debug_handles:{{{digits}}}, was not found.\n".encode()
        for file in (FLEET, FLEET / f"{one.model}.ptdbg"):
            quoted, logged = called("symbolicate", file, quote % digits), run("symbolicate", file, stdin=line)
            assert (quoted.exit_code, quoted.stdout) == (logged.returncode, logged.stdout.decode())
            assert quoted.stderr == logged.stderr.decode()
            if form == "unique":
                assert quoted.exit_code == 0
                by = f"1 explained by {FLEET / one.model}.ptdbg, 0 ambiguous\n"
                assert quoted.stderr.endswith(by) == (file == FLEET)


@pytest.mark.parametrize("top", [1, 2, 0])
def test_top_counts_for_what_stays_unexplained_too(top: int) -> None:
    """The notes about most failures are printed, and the others are counted."""
    unknown = "Debug info for handle(s): debug_handles:{%s}, was not found.\n"
    log = "".join(unknown % number * count for number, count in ((9001, 1), (9002, 3), (9003, 2)))
    done = run("symbolicate", FILES[0], "--top", top, stdin=log.encode())
    notes = [line for line in done.stderr.decode().splitlines() if "handles {" in line]
    numbers = [note.partition("{")[2].partition("}")[0] for note in notes]
    assert numbers == (["9002", "9003"][:top] if top else ["9001", "9002", "9003"])
    left = {1: "3 more such failures", 2: "1 more such failure\n", 0: ""}[top]
    assert left in done.stderr.decode()
    assert ("more such" in done.stderr.decode()) == bool(left)
    assert b"0 failures explained, 6 not" in done.stdout


@pytest.mark.parametrize("words", [["--log", "x"], ["--at", "code/x.py:1"], ["42"]])
def test_handles_in_braces_go_with_nothing_else(words: list[str]) -> None:
    assert called("symbolicate", FILES[0], "{42}", *words).exit_code == 2


@pytest.mark.parametrize("words", [["--top", "1"], ["--id", "x"], ["--model", "x"], ["--log", "x"]])
def test_options_of_logs_are_not_for_handles(words: list[str]) -> None:
    assert called("symbolicate", FILES[0], "42", *words).exit_code == 2


def test_a_pattern_that_is_none_and_a_folder_without_models_are_told(tmp_path: Path) -> None:
    log = FLEET / "plain.log"
    assert "isn't a regular" in run("symbolicate", FLEET, "--id", "(", "--log", log).stderr.decode()
    assert "no archive or companion in it" in run("symbolicate", tmp_path, "--log", log).stderr.decode()
    one = run("symbolicate", FLEET, log, stdin=b"")
    assert one.returncode == 2
    assert b"if it is a log, give the model, too: `symbolicate MODEL --log LOG`" in one.stderr


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("is_input", [False, True], ids=["--log", "standard input"])
def test_what_is_no_log_is_refused_with_the_way_out(name: str, *, is_input: bool) -> None:
    """A file of any kind in the place of a log, packed or not."""
    path, kind = FIXTURES / "kinds" / name, NAMED[name][0]
    words, data = ([], path.read_bytes()) if is_input else (["--log", path], b"")
    done = run("symbolicate", FILES[0], *words, stdin=data)
    called_so = "standard input" if is_input else str(path)
    if kind in LOG_KINDS | {FileKind.LFS} and name != "script.pt.gz":
        assert (done.returncode, done.stdout) == (0, path.read_bytes())
        size = len(path.read_bytes())
        said = (
            f"debug-archive: no failure to explain in {called_so} ({size} byte{'s' * (size != 1)}), 1 model\n"
        )
        assert done.stderr.decode() == said
    else:
        assert (done.returncode, done.stdout) == (2, b"")
        line = done.stderr.decode()
        assert line.startswith(f"debug-archive: {called_so}: ")
        assert ", and not a log: " in line
        assert line.endswith(("--log LOG\n", "`\n"))
        assert ("unpack it first" in line) == (
            kind in {FileKind.XZ, FileKind.BZIP2, FileKind.ZSTD, FileKind.TAR}
        )


def test_a_packed_model_that_is_no_log_is_refused_however_large(tmp_path: Path) -> None:
    """Of which one piece is read, which reads like a zip that was cut."""
    log = tmp_path / "model.gz"
    log.write_bytes(gzip.compress(b"PK\3\4" + bytes(range(256)) * 1000))
    done = run("symbolicate", FILES[0], "--log", log)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"model.gz: a zip without its end" in done.stderr


def test_a_log_without_failures_is_said_to_have_none(tmp_path: Path) -> None:
    """Of one model and of several; one with failures, however they end, isn't."""
    (tmp_path / "app.log").write_bytes(b"started\n")
    for files, models, skipped in (([FILES[0]], "1 model", b""), ([FLEET], "3 models", SKIPPED)):
        done = run("symbolicate", *files, "--log", tmp_path / "app.log")
        said = f"no failure to explain in {tmp_path / 'app.log'} (8 bytes), {models}"
        assert (done.returncode, done.stderr) == (0, f"debug-archive: {said}\n".encode() + skipped)
        assert b"no failure to explain" not in run("symbolicate", *files, stdin=PLAIN).stderr


def test_a_companion_that_breaks_meanwhile_is_told_and_the_others_count(tmp_path: Path) -> None:
    for path in FILES:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    broken = tmp_path / "Encoder.ptdbg"
    broken.write_bytes(broken.read_bytes()[:-40])
    done = run("symbolicate", tmp_path, stdin=LOG)
    others = sum(one.model != "Encoder" for one in FAILURES[:FIRST])
    assert done.returncode == 1
    assert b"not read: " in done.stderr
    assert f"20 failures, 3 models: {others} explained".encode() in done.stderr
    assert b"if they are unique: of none of 2 models that can be read\n" in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "page.pt",
        "packed.pt",
        "empty.pt",
        "page.safetensors",
        "packed.gguf",
        "pytorch_model.bin",
        "cut.safetensors",
    ],
)
def test_what_should_be_a_model_and_is_none_is_named_and_counts_for_none(name: str, tmp_path: Path) -> None:
    """A failure may be of what is packed in it, but for weights alone."""
    for path in FILES:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    well = run("symbolicate", tmp_path, stdin=PLAIN)
    whole = (FIXTURES / "kinds" / "tensors.safetensors").read_bytes()
    contents = {"cut": whole[:100], "packed": gzip.compress(whole), "empty": b""}
    (tmp_path / name).write_bytes(contents.get(name.partition(".")[0], b"<html>404</html>"))
    named = f"debug-archive: not read: {tmp_path / name}: ".encode()
    done = run("symbolicate", tmp_path, stdin=PLAIN)
    assert done.returncode == 1
    assert done.stderr.count(named) == 1
    assert b" failures, 3 models: " in done.stderr
    assert done.stdout == (PLAIN if name == "packed.pt" else well.stdout)
    assert well.stdout != PLAIN
    for words in (["--log", os.devnull], ["42"]):
        asked = run("symbolicate", tmp_path, *words)
        assert asked.returncode
        assert named in asked.stderr
        assert b"3 models" in asked.stderr


def test_what_cannot_be_read_is_named_before_a_failure_asks(tmp_path: Path) -> None:
    shutil.copy(FILES[0], tmp_path)
    (tmp_path / "gone.pt").symlink_to("nowhere")
    (tmp_path / "cut.pt").write_bytes(b"PK\x03\x04 cut")
    done = run("symbolicate", tmp_path, "--log", os.devnull)
    assert done.returncode == 1
    lines = [line.removeprefix("debug-archive: ") for line in done.stderr.decode().splitlines()]
    assert f"not read: {tmp_path / 'gone.pt'}: No such file or directory" in lines
    assert sum(line.startswith(f"not read: {tmp_path / 'cut.pt'}: a zip") for line in lines) == 1


@pytest.mark.parametrize("content", [b"PK\x03\x04 cut", None])
def test_what_may_be_of_a_model_that_cannot_be_read_is_not_anothers(
    content: bytes | None, tmp_path: Path
) -> None:
    """Whether a companion is cut, or an archive that it was kept beside."""
    for path in FILES:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    broken = tmp_path / "Encoder.ptdbg"
    broken.write_bytes(content or broken.read_bytes()[:-40])
    done = run("symbolicate", tmp_path, stdin=PLAIN)
    assert (done.returncode, done.stdout) == (1, PLAIN)
    assert b"nothing says which model failed, and " in done.stderr
    assert b"Encoder.ptdbg cannot be read: mend that file, or leave it out" in done.stderr
    named = run("symbolicate", tmp_path, "--model", r"running (\w+)", stdin=PLAIN)
    others = sum(one.model != "Encoder" for one in FAILURES[:FIRST])
    assert f"3 models: {others} explained".encode() in named.stderr


@pytest.mark.parametrize("sources", [[JIT.path], [JIT.path, FLEET]], ids=["one model", "several"])
def test_a_failure_that_may_be_complete_is_not_held_back_for_the_next_line(sources: list[Path]) -> None:
    """As under ``tail -f``: the log stays open, and nothing follows an exception without a message."""
    words = [sys.executable, "-m", "archive", "symbolicate", *map(str, sources)]
    lines = JIT.stripped.replace(JIT.stripped[JIT.stripped.rindex(b"RuntimeError") :], b"StopIteration\n")
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=FIXTURES.parent
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(lines)
        running.stdin.flush()
        written = b""
        while b"StopIteration\n" not in written:
            written += os.read(running.stdout.fileno(), 1 << 16)
        assert b"original code" in written
        running.stdin.close()
        assert running.wait() == 0


@pytest.mark.parametrize("words", [["42"], ["--log", os.devnull]], ids=["handles", "log"])
@pytest.mark.parametrize("models", ["a folder", "two files", "a store"])
def test_a_companion_for_several_models_is_refused(models: str, words: list[str], tmp_path: Path) -> None:
    given: dict[str, list[object]] = {
        "a folder": [FLEET],
        "two files": [*FILES[:2]],
        "a store": ["--store", FLEET],
    }
    files = given[models]
    done = run("symbolicate", *files, *words, "-c", tmp_path / "gone.ptdbg")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"-c is for one FILE" in done.stderr


def test_a_file_beside_a_store_is_one_model_more(tmp_path: Path) -> None:
    """As ``symbolicate FILE STORE``: the companion that explains it may be in the store."""
    shutil.copy(ORACLES / "plain_unicode.ptl", tmp_path / "app.ptl")
    log = (ORACLES / "plain_unicode.unique.txt").read_bytes()
    done = [
        run("symbolicate", tmp_path / "app.ptl", *store, stdin=log) for store in (["--store", FLEET], [FLEET])
    ]
    assert done[0].stdout == done[1].stdout != log
    assert done[0].returncode == 0


def test_the_only_candidate_says_itself_why_it_explains_nothing() -> None:
    """What is ambiguous fits two."""
    log = (FIXTURES / "executorch" / "fork.log.txt").read_bytes()
    alone = run("symbolicate", FIXTURES / "executorch" / "fork.etrecord", stdin=log)
    among = run("symbolicate", FIXTURES / "executorch" / "fork.etrecord", *FILES[:2], stdin=log)
    assert b"ambiguous: fits" not in among.stderr
    assert among.stdout == alone.stdout
    own = [line for line in alone.stderr.splitlines() if b"line " in line]
    assert own
    assert {*own} <= {*among.stderr.splitlines()}
