"""``debug-archive digest``: lines as sha256sum writes them, lists that are checked, many files."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from tests.support.commands import called
from tests.support.corpus import FIXTURES, RELEASES
from tests.support.documents import files_of
from tests.support.sampling import examples

NEW = RELEASES / "torch-2.13.0"


def filled(folder: Path) -> Path:
    """A folder with two models, a checkpoint, a page, and a model that was cut short."""
    folder.mkdir()
    shutil.copy(NEW / "nested.pt", folder / "nested.pt")
    shutil.copy(RELEASES / "torch-2.1.0/nested.pt", folder / "older.pt")
    shutil.copy(FIXTURES / "kinds/checkpoint.pt", folder / "checkpoint.pt")
    shutil.copy(FIXTURES / "kinds/page.pt", folder / "page.html")
    (folder / "cut.pt").write_bytes((NEW / "nested.pt").read_bytes()[:-100])
    return folder


def test_a_line_has_the_digest_and_the_file() -> None:
    file = NEW / "nested.pt"
    done = called("digest", file)
    assert done.output == f"{archive.digest(file)}  {file}\n"
    assert done.exit_code == 0


def test_that_of_a_file_is_what_sha256sum_prints() -> None:
    file = NEW / "nested.pt"
    assert (
        called("digest", "--of", "file", file).output
        == f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}\n"
    )


def test_parts_are_below_the_digest_that_follows_from_them() -> None:
    head, *parts = called("digest", "--parts", NEW / "nested.pt").output.splitlines(keepends=True)
    told = hashlib.sha256("".join(["debug-archive model 4\n", *parts]).encode()).hexdigest()
    assert head.startswith(f"model-4:{told}  ")
    assert any(line.endswith("  tensor/gate.inner.w\n") for line in parts)


def test_one_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    done = called("digest", filled(tmp_path / "models"), "-j", 1)
    digests = {line.split("/")[-1]: line.split()[0] for line in done.stdout.splitlines()}
    assert sorted(digests) == ["checkpoint.pt", "nested.pt", "older.pt"]
    assert digests["nested.pt"] == digests["older.pt"] != digests["checkpoint.pt"]
    assert "cut.pt: " in done.stderr
    assert "skipped, files of other kinds: 1 (HTML page: 1)" in done.stderr
    assert done.exit_code == 2


ODD = st.sampled_from(
    ["\u2028", "\u202e", "\n", "\r", "\\", "\\n", "\\udcff", "\x85", "\udc85", " ", "ü", "*"]
)
"""Characters that end a line somewhere, turn it round, or look like the escape of another."""


@settings(max_examples=examples(60))
@given(st.lists(ODD | st.text("ab\\x85u", max_size=3), min_size=1, max_size=6).map("".join))
def test_a_list_names_every_file_on_one_line_and_is_read_back(name: str) -> None:
    with TemporaryDirectory() as folder, suppress(OSError):
        file = Path(folder, f"{name}.pt")
        shutil.copy(NEW / "unicode.pt", file)
        printed = called("digest", file).stdout
        assert printed.endswith("\n")
        assert printed[:-1].isprintable()
        assert (printed[0] == "\\") == (not name.isprintable() or "\\" in name)
        listed = Path(folder, "list")
        listed.write_text(printed)
        assert called("digest", "--check", listed).exit_code == 0
        shutil.copy(NEW / "nested.pt", file)
        assert called("digest", "--check", listed).exit_code == 1


def test_a_list_is_checked_with_what_each_digest_is_of(tmp_path: Path) -> None:
    file, other = tmp_path / "a\\b\n.pt", tmp_path / "model.pt"
    for path in (file, other):
        shutil.copy(NEW / "nested.pt", path)
    lines = [
        called("digest", "--of", kind, path).output for kind, path in (("debug", file), ("model", other))
    ]
    made = tmp_path / "digests.txt"
    made.write_text("".join(lines))
    assert called("digest", "--check", made).exit_code == 0
    archive.shrink(other, other, force=True)
    assert called("digest", "--check", made).output.endswith("model.pt: OK\n")
    shutil.copy(NEW / "traced.pt", other)
    done = called("digest", "--check", made)
    assert done.stdout.endswith("model.pt: FAILED\n")
    assert "1 file of another digest than in the list" in done.stderr
    assert done.exit_code == 1
    other.unlink()
    done = called("digest", "--check", made)
    assert done.stdout.endswith("model.pt: FAILED\n")
    assert done.exit_code == 2


def test_facts_are_json(tmp_path: Path) -> None:
    folder = filled(tmp_path / "models")
    told = files_of(called("digest", folder, "--json", "--parts").stdout)
    assert [sorted(one) for one in told] == [
        ["digest", "file", "of", "parts"],
        ["error", "file"],
        *[["digest", "file", "of", "parts"]] * 2,
    ]
    assert told[2]["parts"] == dict(archive.digest(folder / "nested.pt").parts)


def test_a_list_that_is_none_is_refused(tmp_path: Path) -> None:
    made = tmp_path / "digests.txt"
    made.write_text("something else\n")
    assert "line 1: expected a digest and a file, found 'something else'" in str(
        called("digest", "--check", made).exception
    )
    made.write_text("\n")
    assert "has no digests in it" in str(called("digest", "--check", made).exception)
    assert called("digest").exit_code == 2
    assert called("digest", "--check", made, NEW / "nested.pt").exit_code == 2


def test_a_list_of_another_version_is_told(tmp_path: Path) -> None:
    listed = tmp_path / "digests.txt"
    listed.write_text(f"model-1:{'0' * 64}  {NEW / 'nested.pt'}\n")
    told = "line 1: expected a digest of version 4, model-4, found model-1; make the list again"
    assert told in str(called("digest", "--check", listed).exception)
