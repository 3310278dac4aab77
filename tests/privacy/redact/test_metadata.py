"""``redact`` of safetensors: metadata without what was to go, and the tensors as they were."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, BinaryIO
from unittest import mock

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save as safetensors_of

import archive
from archive.base.errors import ArchiveError, ImpossibleError
from archive.formats.tensor_files.safetensors import header_of
from archive.privacy.redact.named_text import RedactionText
from tests.support.commands import run
from tests.support.corpus import FIXTURES, KINDS
from tests.support.sampling import examples

if TYPE_CHECKING:
    from pathlib import Path

ARRAYS: dict[str, np.ndarray] = {
    "fc.weight": np.arange(6, dtype=np.float32).reshape(3, 2),
    "scale": np.ones(3, np.int8),
}
METADATA = {
    "format": "pt",
    "author": "Ann Example",
    "trained": "from /home/ann/run1/data.csv by /home/ann/train.py",
    "url": "https://git.example.com/lab",
}


CHECKPOINT = KINDS / "state_dict.pt"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors_of(ARRAYS, METADATA))
    return file


def metadata_of(file: Path) -> dict[str, str]:
    """What the package reads, which has to find the same tensors."""
    with safe_open(file, "numpy") as opened:
        for name, array in ARRAYS.items():
            assert np.array_equal(opened.get_tensor(name), array)
        return dict(opened.metadata() or {})


def test_for_publish_members_that_tell_of_people_go(file: Path) -> None:
    out = file.with_name("out.safetensors")
    result = archive.redact_metadata(file, out, preset="publish")
    assert metadata_of(out) == {"format": "pt", "trained": "from data.csv by train.py"}
    assert (set(result.gone), result.changed) == ({"author", "url"}, ("trained",))
    assert result.is_clean
    assert archive.leaks(out).counted() == []


@pytest.mark.parametrize("key", ["author", "USER", "host_name"])
def test_a_member_of_a_name_goes_also_where_a_path_has_become_one(file: Path, key: str) -> None:
    file.write_bytes(safetensors_of(ARRAYS, {key: "/home/ann/train.py", "path": "/home/ann/train.py"}))
    out = file.with_name("out.safetensors")
    result = archive.redact_metadata(file, out, preset="publish")
    assert (metadata_of(out), result.is_clean) == ({"path": "train.py"}, True)
    archive.redact_metadata(file, out, preset="publish", maps=["/home/ann/train.py=t.py"], force=True)
    assert metadata_of(out) == {key: "t.py", "path": "t.py"}


def test_metadata_that_are_null_stay_out(file: Path) -> None:
    header = b'{"__metadata__":null,"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"1")
    out = file.with_name("out.safetensors")
    assert archive.redact_metadata(file, out, preset="publish").is_clean
    with safe_open(out, "numpy") as opened:
        assert opened.get_tensor("w").tolist() == [ord("1")]


def test_a_map_changes_paths_and_nothing_else(file: Path) -> None:
    out = file.with_name("out.safetensors")
    archive.redact_metadata(file, out, maps=["/home/ann/=src/"])
    assert metadata_of(out) == {**METADATA, "trained": "from src/run1/data.csv by src/train.py"}


def test_texts_are_replaced_in_keys_and_values_the_longest_first(file: Path) -> None:
    file.write_bytes(safetensors_of(ARRAYS, {"by annabel": "annabel and anna", "b": "x"}))
    out = file.with_name("out.safetensors")
    result = archive.redact_metadata(file, out, replace=["annab=?", "annabel=A", "x="])
    assert metadata_of(out) == {"by A": "A and anna", "b": ""}
    assert result.sought["text"] == 2
    assert result.not_searched_for == (RedactionText("text", "x"),)


def test_what_is_in_tensors_or_their_names_is_left_and_nothing_is_written(file: Path) -> None:
    out = file.with_name("out.safetensors")
    home = b"\n/home/ann/secrets/of/the/lab.txt\n"
    for arrays in ({"/home/ann/secrets/of": ARRAYS["scale"]}, {"a": np.frombuffer(home, np.uint8)}):
        file.write_bytes(safetensors_of(arrays, METADATA))
        with pytest.raises(ImpossibleError, match=r"would be left: .*home/ann/secrets"):
            archive.redact_metadata(file, out, preset="publish")
        assert not out.exists()
    file.write_bytes(safetensors_of({"layer.annabel": ARRAYS["scale"]}, {"by": "annabel"}))
    with pytest.raises(ImpossibleError, match="would be left: text annabel in header"):
        archive.redact_metadata(file, out, replace=["annabel=A"])


def test_other_bytes_of_tensors_than_the_file_has_are_found_out(file: Path) -> None:
    def other_data(data: memoryview, out: BinaryIO) -> None:
        out.write(data if bytes(data[8:9]) == b"{" else bytes(len(data)))

    out = file.with_name("out.safetensors")
    with (
        mock.patch("archive.privacy.redact.metadata.write_all", other_data),
        pytest.raises(ArchiveError, match="tensors would not be the same"),
    ):
        archive.redact_metadata(file, out, preset="publish")
    assert not out.exists()


@given(
    st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4), st.text(min_size=1, max_size=3)
)
@settings(max_examples=examples(60), deadline=None)
def test_any_text_is_replaced_and_all_else_stays(
    tmp_path_factory: pytest.TempPathFactory, metadata: dict[str, str], value: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.safetensors"
    out = file.with_name("any_out.safetensors")
    file.write_bytes(safetensors_of(ARRAYS, metadata))
    if "=" in value:
        return
    new = {key.replace(value, ""): text.replace(value, "") for key, text in metadata.items()}
    if len(new) < len(metadata):
        with pytest.raises(ArchiveError, match="two members of metadata would both be"):
            archive.redact_metadata(file, out, replace=[f"{value}="], force=True, partial=True)
        return
    archive.redact_metadata(file, out, replace=[f"{value}="], force=True, partial=True)
    assert metadata_of(out) == new


def test_members_of_a_tensor_that_are_not_known_stay(file: Path) -> None:
    header = {
        "a": {"dtype": "I8", "shape": [2], "data_offsets": [0, 2], "note": 1.5},
        "__metadata__": METADATA,
    }
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"ab")
    out = file.with_name("out.safetensors")
    archive.redact_metadata(file, out, preset="publish")
    data = memoryview(out.read_bytes())
    start, after = header_of(data)
    assert (after["a"], bytes(data[start:]), start % 8) == (header["a"], b"ab", 0)


@pytest.mark.parametrize("pair", ["a", "=b", "a=ba"])
def test_a_replacement_that_is_none_is_refused(file: Path, pair: str) -> None:
    with pytest.raises(ArchiveError, match=r"VALUE=TEXT|would be there again"):
        archive.redact_metadata(file, file.with_name("out"), replace=[pair])


def test_nothing_to_redact_is_refused(file: Path) -> None:
    with pytest.raises(ArchiveError, match="nothing to redact"):
        archive.redact_metadata(file, file.with_name("out"), paths="keep")


@pytest.mark.parametrize("words", [("--replace", "Example=X"), ("--for", "publish")], ids=" ".join)
@pytest.mark.parametrize("place", ["a URL", "a folder", "a glob", "files"])
def test_files_are_redacted_by_their_kind_wherever_they_lie(
    file: Path, place: str, words: tuple[str, ...]
) -> None:
    """Others in a folder that no redaction takes are skipped."""
    (file.with_name("in")).mkdir()
    (file.with_name("in") / "notes.txt").write_text("words")
    shutil.copy(file, file.with_name("in") / "model.safetensors")
    shutil.copy(file, file.with_name("in") / "other.safetensors")
    fsspec.filesystem("memory").pipe("redacted/model.safetensors", file.read_bytes())
    given: dict[str, list[object]] = {
        "a URL": ["memory://redacted/model.safetensors"],
        "a folder": [file.with_name("in")],
        "a glob": [file.with_name("in") / "*.safetensors"],
        "files": [*sorted(file.with_name("in").glob("*.safetensors"))],
    }
    inputs = given[place]
    out = file.with_name("out")
    done = run("redact", *inputs, "-o", out, *words, "-j", "1")
    assert done.returncode == 0, done.stderr
    made = sorted(out.iterdir()) if out.is_dir() else [out]
    assert len(made) == (1 if place == "a URL" else 2)
    assert not any(b"Ann Example" in path.read_bytes() for path in made)


@pytest.mark.parametrize("place", ["a folder", "files"])
def test_files_that_are_redacted_in_different_ways_are_refused(file: Path, place: str) -> None:
    folder = file.with_name("in")
    folder.mkdir()
    both = [shutil.copy(one, folder) for one in (file, CHECKPOINT)]
    inputs = [folder] if place == "a folder" else both
    done = run("redact", *inputs, "-o", file.with_name("out"), "--replace", "Example=X")
    assert done.returncode == 2
    for name in (file.name, CHECKPOINT.name):
        assert str(folder / name).encode() in done.stderr
    assert b"are redacted in different ways" in done.stderr
    assert not file.with_name("out").exists()


def test_a_folder_of_checkpoints_is_redacted_by_values(file: Path) -> None:
    folder, out = file.with_name("in"), file.with_name("out")
    folder.mkdir()
    for name in ("a.pt", "b.pt"):
        shutil.copy(FIXTURES / "canaries" / "checkpoint.pt", folder / name)
    done = run("redact", folder, "-o", out, "--replace", "nobody=X", "-j", "1")
    assert b"--replace is for" not in done.stderr
    assert {path.name for path in out.iterdir()} == {"a.pt", "b.pt"}


def test_the_command(file: Path) -> None:
    out = file.with_name("out.safetensors")
    done = run("redact", file, "-o", out, "--for", "publish")
    assert b"taken out of metadata: author" in done.stdout
    assert b"changed in metadata: trained" in done.stdout
    again = run("redact", file, "-o", out, "--replace", "Example=X", "--force", "--json")
    assert json.loads(again.stdout)["files"][0]["changed"] == ["author"]
    pairs = "--replace", "nobody=X", "--replace", "trained=X"
    none = run("redact", file, "-o", out, *pairs, "--force")
    assert none.stdout.count(b"nothing to replace") == 1
    assert b"nothing to replace: no text has 'nobody'" in none.stdout
    assert run("redact", file, "-o", out, "--for", "publish", "-c", "x", "--force").returncode == 2
    assert run("redact", file, "-o", out, "--no-inputs", "--force").returncode == 2
    other = run("redact", KINDS / "exported.pt2", "-o", out, "--replace", "a=b", "-c", "x")
    assert b"--replace is for metadata of safetensors" in other.stderr


@pytest.mark.parametrize(
    ("name", "way"),
    [("model.gguf", b"gguf-new-metadata"), ("model.onnx", b"onnx.save"), ("legacy.pt", b"torch.save")],
)
def test_other_files_of_tensors_are_refused_with_a_way_out(name: str, way: bytes, tmp_path: Path) -> None:
    for more in ([], ["-c", tmp_path / "companion"]):
        done = run("redact", KINDS / name, "-o", tmp_path / "out", "--for", "publish", *more)
        assert done.returncode == 2
        assert way in done.stderr
        assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("user", ["mark", "max", "vi"])
def test_users_who_are_words_or_short_are_named_as_not_looked_for(file: Path, user: str) -> None:
    file.write_bytes(safetensors_of(ARRAYS, {"trained": f"by /home/{user}/train.py"}))
    out = file.with_name("out.safetensors")
    result = archive.redact_metadata(file, out, preset="publish")
    assert metadata_of(out) == {"trained": "by train.py"}
    assert RedactionText("user name", user) in result.not_searched_for
