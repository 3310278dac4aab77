"""``inspect --inventory`` in all forms, with a manifest, over folders here and elsewhere."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import fields
from typing import TYPE_CHECKING
from unittest import mock

import fsspec
import pytest

import archive
from archive.describe.inventory import InventoryRow, inventoried
from archive.describe.totals import SAME, SUMMED
from archive.reader.recognition.kinds import ADVICE, FileKind
from tests.page.browser import data_of
from tests.support.commands import called, run
from tests.support.corpus import CALLSTACKS, FIXTURES, KINDS
from tests.support.documents import files_of
from tests.support.object_store import s3
from tests.support.range_server import served
from tests.support.tampering import STACK, tampered

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from typing import Any


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A folder with a model and its copy, a program, a state dict, a web page, and a zip that is cut."""
    folder = tmp_path / "zoo"
    (folder / "old").mkdir(parents=True)
    shutil.copy(STACK, folder / "a.ptl")
    shutil.copy(STACK, folder / "old" / "b.ptl")
    shutil.copy(FIXTURES / "exported" / "shop.pt2", folder)
    shutil.copy(KINDS / "state_dict.pt", folder)
    shutil.copy(KINDS / "page.pt", folder / "page.html")
    (folder / "cut.pt").write_bytes(STACK.read_bytes()[:900])
    return folder


def rows(*arguments: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = files_of(called("inspect", *arguments, "--inventory", "--json").stdout)
    return found


def test_each_model_has_a_row_and_others_are_counted(zoo: Path) -> None:
    done = called("inspect", zoo, "--inventory", "--json")
    assert done.exit_code == 2
    found = {row["file"]: row for row in files_of(done.stdout)}
    assert [name.removeprefix(f"{zoo}/") for name in found] == [
        "a.ptl",
        "cut.pt",
        "shop.pt2",
        "state_dict.pt",
        "old/b.ptl",
    ]
    assert found[f"{zoo}/old/b.ptl"]["same_as"] == f"{zoo}/a.ptl"
    cut = found[f"{zoo}/cut.pt"]
    assert (cut["kind"], cut["unread"]) == ("zip cut short", [cut["error"].removeprefix(f"{zoo}/cut.pt: ")])
    assert cut["unread"][0].startswith("a zip without its end, cut short")
    assert "skipped, files of other kinds: 1 (HTML page: 1)" in done.stderr
    for name in ("a.ptl", "shop.pt2", "state_dict.pt"):
        assert found[f"{zoo}/{name}"]["elements"] == inventoried(zoo / name).elements


def test_many_files_are_an_inventory_and_json_has_all_of_each_file(zoo: Path) -> None:
    for words in ([], ["--format", "csv"]):
        assert called("inspect", zoo, *words).stdout == called("inspect", zoo, "--inventory", *words).stdout
    pair = called("inspect", zoo / "a.ptl", zoo / "shop.pt2", "--format", "csv").stdout
    assert [row["kind"] for row in csv.DictReader(io.StringIO(pair))] == ["lite archive", "exported program"]
    assert called("inspect", STACK, "--format", "csv").stdout.startswith("file,record,kind,")
    (row,) = csv.DictReader(io.StringIO(called("inspect", STACK, "--inventory", "--format", "csv").stdout))
    assert row["kind"] == "lite archive"
    asked = called("inspect", zoo, "--digest").stdout
    assert f"the same model as {zoo}/a.ptl" in asked.splitlines()[3]
    found = files_of(called("inspect", zoo, "--json").stdout)
    assert {"records", "error"} == {key for facts in found for key in ("records", "error") if key in facts}


def test_a_file_that_is_named_is_to_be_a_model(zoo: Path) -> None:
    done = called("inspect", zoo / "page.html", zoo / "a.ptl", "--inventory", "--json")
    assert done.exit_code == 2
    page, model = files_of(done.stdout)
    name, size = f"{zoo}/page.html", (zoo / "page.html").stat().st_size
    why = f"expected a model, found HTML page: {ADVICE[FileKind.HTML]}"
    assert page == {
        "file": name,
        "kind": "HTML page",
        "size": size,
        "error": f"{name}: {why}",
        "unread": [why],
    }
    assert model["kind"] == "lite archive"


@pytest.mark.parametrize(("changes", "status"), [({CALLSTACKS: b"no pickle"}, 2), ({}, 0)])
def test_a_row_that_lacks_what_could_not_be_read_is_no_good_end(
    zoo: Path, changes: dict[str, bytes], status: int
) -> None:
    (zoo / "a.ptl").write_bytes(tampered(STACK, changes))
    done = called("inspect", zoo / "a.ptl", zoo / "state_dict.pt", "--inventory", "--verify")
    assert ("not read: debug records: " in done.stdout, done.exit_code) == (bool(changes), status)


def test_a_folder_without_models_is_told(zoo: Path) -> None:
    (zoo / "pages").mkdir()
    shutil.move(zoo / "page.html", zoo / "pages")
    done = called("inspect", zoo / "pages", "-j", 1)
    assert str(done.exception) == f"{zoo}/pages: no model in it, but other files: 1 (HTML page: 1)"


def test_json_ends_with_the_sums_of_its_rows(zoo: Path) -> None:
    document = called("inspect", zoo, "--inventory", "--json").stdout
    told = [row for row in files_of(document) if "error" not in row]
    totals = json.loads(document)["totals"]
    for group in ("kind", "release"):
        sums = totals[f"by_{group}"]
        assert set(sums) == {row[group] for row in told}
        for name, numbers in [*sums.items(), (None, totals["all"])]:
            rows = [row for row in told if name in (None, row[group])]
            assert numbers["files"] == len(rows)
            for key, *_ in SUMMED:
                known = [row[key] for row in rows if row[key] is not None]
                assert numbers[key] == (sum(known) if known else None)
    assert (totals["same"]["crc"]["files"], totals["same"]["crc"]["size"]) == (1, STACK.stat().st_size)
    assert (totals["others"], totals["unread"], totals["elements_unknown"]) == ({"HTML page": 1}, 1, 0)
    assert "totals" not in json.loads(called("inspect", zoo, "--json").stdout)


def test_an_empty_folder_is_no_file_that_could_not_be_read(tmp_path: Path) -> None:
    done = run("inspect", tmp_path, "--inventory")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"debug-archive: {tmp_path}: no file in it\n"


def test_a_link_to_a_folder_is_left_out_and_counted(zoo: Path) -> None:
    (zoo / "cut.pt").unlink()
    (zoo / "link").symlink_to("old")
    done = called("inspect", zoo, "--inventory")
    assert (done.exit_code, "broken" in done.stdout) == (0, False)
    assert (
        done.stderr == "debug-archive: skipped, files of other kinds: 2 (HTML page: 1, link to a folder: 1)\n"
    )


def test_two_names_of_a_file_are_told_and_its_copy_is_another(zoo: Path) -> None:
    """As the cache of the Hub has them: files among ``blobs``, and links to them."""
    (zoo / "blobs").mkdir()
    weights = zoo / "blobs" / "sha"
    shutil.copy(KINDS / "tensors.safetensors", weights)
    shutil.copy(weights, zoo / "copy.safetensors")
    (zoo / "snapshots").mkdir()
    (zoo / "snapshots" / "link.safetensors").symlink_to("../blobs/sha")
    (zoo / "snapshots" / "hard.safetensors").hardlink_to(weights)
    (zoo / "snapshots" / "link.ptl").symlink_to("../a.ptl")
    found = {row["file"].removeprefix(f"{zoo}/"): row for row in rows(zoo) if row.get("same_by") == "file"}
    assert {name: row["same_as"].removeprefix(f"{zoo}/") for name, row in found.items()} == {
        "snapshots/hard.safetensors": "blobs/sha",
        "snapshots/link.safetensors": "blobs/sha",
        "snapshots/link.ptl": "a.ptl",
    }
    lines = called("inspect", zoo).stdout.splitlines()
    assert lines[-2] == "Other names of the same files: 3 files, 12,962 bytes"


def test_csv_has_the_same_rows_and_none_is_missing(zoo: Path) -> None:
    told = rows(zoo)
    done = called("inspect", zoo, "--inventory", "--format", "csv")
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [*found[0]] == [field.name for field in fields(InventoryRow)]
    assert [row["file"] for row in found] == [row["file"] for row in told]
    for row, facts in zip(found, told, strict=True):
        if "error" in facts:
            assert (row["kind"], row["size"], row["elements"]) == ("zip cut short", str(facts["size"]), "")
            assert "cut short" in row["unread"]
            continue
        for name in ("kind", "size", "elements", "debug_bytes", "release", "contents", "same_as"):
            assert row[name] == ("" if facts[name] is None else str(facts[name]))
        assert row["leaks"] == row["findings"] == ""
    asked = called("inspect", STACK, "--inventory", "--format", "csv", "--leaks", "--verify").stdout
    (row,) = csv.DictReader(io.StringIO(asked))
    assert row["findings"] == "none"
    assert row["leaks"].startswith("site-packages path ")


@pytest.mark.parametrize("names", [("a.ptl", "b.ptl", "c.ptl"), ("c.ptl", "b.ptl", "a.ptl")])
@pytest.mark.parametrize("words", [(), ("--verify",)])
def test_what_is_broken_is_no_original_and_no_copy(
    names: tuple[str, str, str], words: tuple[str, ...], tmp_path: Path
) -> None:
    """Whichever name comes first; the sums count it. Its directory claims what those of the others do."""
    broken, *sound = [tmp_path / name for name in names]
    data = STACK.read_bytes()
    with archive.open(STACK) as opened:  # a tensor is read by --verify alone
        start = opened.container.records["data/0" if words else CALLSTACKS].entry.start
    at = data.index(b"PK\x07\x08", start) - 8  # before the descriptor
    for path in sound:
        path.write_bytes(data)
    broken.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    done = called("inspect", tmp_path, *words)
    lines = {line.partition(": ")[0]: line for line in done.stdout.splitlines()}
    first, second = sorted(map(str, sound))
    assert "the same" not in lines[str(broken)] + lines[first]
    assert lines[second].endswith(SAME["sums" if "--verify" in words else "crc"].format(first))
    assert "read only in part, or with errors: 1 file" in done.stdout


def test_files_that_verify_does_not_find_well_are_broken(zoo: Path) -> None:
    """Whatever is wrong with them: cut short, empty, no model, with a record that cannot be read."""
    (zoo / "empty.pt").touch()
    shutil.copy(KINDS / "page.pt", zoo / "page.pt")
    data = bytearray(STACK.read_bytes())
    data[data.index(b"callstack_debug_map.pkl") + 120] ^= 0xFF
    (zoo / "flipped.ptl").write_bytes(data)
    verified = called("verify", zoo).stdout.splitlines()[-1]
    number, well = (int(found) for found in re.findall(r"(\d+) (?:files|well)", verified))
    said = called("inspect", zoo, "--verify").stdout.splitlines()[-2:]
    assert said == ["could not be read: 3 files", "read only in part, or with errors: 1 file"]
    assert number - well == 3 + 1


def test_a_name_that_reads_as_a_formula_is_none_in_a_spreadsheet(zoo: Path, monkeypatch: Any) -> None:  # noqa: ANN401
    monkeypatch.chdir(zoo)
    for name in ("=1+1.pt", "+1.pt", "@sum.pt"):
        shutil.copy(KINDS / "state_dict.pt", name)
    shutil.copy(KINDS / "state_dict.pt", "-1.pt")
    names = ["=1+1.pt", "+1.pt", "@sum.pt"]
    for command in (("inspect",), ("inspect", "--inventory"), ("sizes",)):
        done = called(*command, *names, "--format", "csv", "--", "-1.pt")
        found = [row["file"] for row in csv.DictReader(io.StringIO(done.stdout))]
        assert dict.fromkeys(found) == dict.fromkeys([*(f"'{name}" for name in names), "'-1.pt"])


def test_text_has_a_line_for_each_and_sums(zoo: Path) -> None:
    lines = called("inspect", zoo, "--inventory").stdout.splitlines()
    assert lines[0].startswith(
        f"{zoo}/a.ptl: lite archive, 12,466 bytes, 50 elements, 3,307 of debug info (26.5%)"
    )
    assert f", the same directory as {zoo}/a.ptl (bytes not compared" in lines[3]
    total = next(line for line in lines if line.startswith("total"))
    assert total.split()[1:3] == ["4", f"{sum(row['size'] for row in rows(zoo) if 'error' not in row):,}"]
    assert lines[-2:] == [
        "Probable duplicates, by their directories only: 1 file, 12,466 bytes",
        "could not be read: 1 file",
    ]


def test_a_page_has_all_rows_and_sums_and_lets_nothing_in(zoo: Path) -> None:
    hostile = zoo / "<img src=x onerror=alert(1)>.ptl"
    shutil.copy(STACK, hostile)
    page = called("inspect", zoo, "--format", "html").stdout.encode()
    assert b"<img" not in page
    assert b"default-src &#x27;none&#x27;" in page
    assert b"http://" not in page.partition(b'id="data"')[0]
    folder = data_of(page)["folder"]
    told = [row for row in rows(zoo) if "error" not in row]
    assert (folder["name"], folder["where"]) == (zoo.name, str(zoo))
    files = folder["files"]
    assert set(files) == {"grave", "first"} | {key for key, _, _ in folder["columns"]}
    read = [row for row, kind in enumerate(files["kind"]) if kind]
    assert [f"{zoo}/{files['file'][row]}" for row in read] == [row["file"] for row in told]
    for key in ("kind", "size", "elements", "release"):
        assert [files[key][row] for row in read] == [row[key] for row in told]
    assert [files["leaks"][row] for row in read] == [""] * len(told)
    assert dict(folder["totals"])["bytes"] == sum(row["size"] for row in told)
    kinds, releases, others = folder["tables"]
    assert sum(row[1] for row in kinds["rows"]) == sum(row[1] for row in releases["rows"]) == len(told)
    assert others["rows"] == [["HTML page", 1]]
    (broken,) = {*range(len(files["file"]))} - {*read}
    assert (files["state"][broken], files["grave"][broken]) == ("not read", "error")
    assert files["unread"][broken] in next(row["error"] for row in rows(zoo) if "error" in row)
    same = next(row for row, first in enumerate(files["first"]) if first is not None)
    assert files["same_as"][same] == SAME["crc"].format(files["file"][files["first"][same]])
    assert files["state"][same] == files["same_as"][same]
    assert any("--verify" in note for note in folder["notes"])
    assert page == called("inspect", zoo, "--format", "html").stdout.encode()


def test_a_page_says_well_of_what_verify_finds_well(tmp_path: Path) -> None:
    """A note is no fault: the column of findings has it."""
    called("split", STACK, "-o", tmp_path / "split.ptl", "-c", tmp_path / "companion")
    for name, file in (("sound.ptl", STACK), ("state_dict.pt", KINDS / "state_dict.pt")):
        shutil.copy(file, tmp_path / name)
    (tmp_path / "companion").unlink()
    page = called("inspect", tmp_path, "--verify", "--format", "html").stdout.encode()
    files = data_of(page)["folder"]["files"]
    assert dict(zip(files["file"], zip(files["state"], files["findings"], strict=True), strict=True)) == {
        "sound.ptl": ("verify: well", "none"),
        "split.ptl": ("verify: well", "note 1"),
        "state_dict.pt": ("verify: nothing found", "none"),
    }
    last = called("verify", tmp_path).stdout.splitlines()[-1]
    assert last.startswith("3 files: 3 well (1 with warnings or notes)")


def test_the_head_of_a_page_counts_files_with_leaks_where_they_were_looked_for(tmp_path: Path) -> None:
    for name, file in (("told.ptl", STACK), ("state_dict.pt", KINDS / "state_dict.pt")):
        shutil.copy(file, tmp_path / name)
    for options, counted in ((["--leaks"], [["with leaks", 1]]), ([], [])):
        folder = data_of(called("inspect", tmp_path, *options, "--format", "html").stdout.encode())["folder"]
        assert [total for total in folder["totals"] if "leaks" in total[0]] == counted


def test_a_digest_that_does_not_apply_is_no_damage(tmp_path: Path) -> None:
    """The elements of this model are in a file beside it."""
    for name in ("outside.onnx", "outside.bin"):
        shutil.copy(FIXTURES / "zoo" / name, tmp_path)
    done = called("inspect", tmp_path, "--digest")
    assert "not read: digest: the model is in several files" in done.stdout
    assert "or with errors" not in done.stdout
    (tmp_path / "outside.bin").unlink()
    assert "read only in part, or with errors: 1 file" in called("inspect", tmp_path, "--digest").stdout


@pytest.mark.parametrize("name", ["model.gguf", "legacy.pt", "tensors.safetensors", "program.pte"])
def test_digest_is_advised_as_it_works(name: str) -> None:
    advice = ADVICE[inventoried(KINDS / name).kind]
    (words,) = re.findall("`(digest[^`]*)`", advice)
    assert called(*words.split(), KINDS / name).exit_code == 0
    assert (called("digest", KINDS / name).exit_code == 0) == (words == "digest")


def test_options_of_an_inventory_go_with_one(zoo: Path) -> None:
    for words in (["--json", "--digest"], ["--json", "--manifest", "m.jsonl"], ["--inventory", "--effects"]):
        done = called("inspect", zoo, *words)
        assert (done.exit_code, done.stdout) == (2, "")
    assert called("inspect", zoo / "a.ptl", "--digest").exit_code == 2
    done = called("inspect", zoo, "--inventory", "--manifest", zoo / "m.txt")
    assert isinstance(done.exception, archive.ArchiveError)


def test_a_model_in_shards_is_one_row_and_counts_once(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    places = {}
    for number, name in enumerate(names):
        header = {f"w{number}": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}
        text = json.dumps(header).encode()
        (folder / name).write_bytes(len(text).to_bytes(8, "little") + text + bytes(12))
        places[f"w{number}"] = name
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": places}))
    store = fsspec.filesystem("memory")
    for path in folder.iterdir():
        store.pipe_file(f"/model/{path.name}", path.read_bytes())
    for place in (folder, "memory://model/"):
        (row,) = rows(place)
        assert (row["kind"], row["files"], row["tensors"], row["elements"]) == ("model in shards", 3, 2, 6)
    assert row["size"] == sum(path.stat().st_size for path in folder.iterdir())
    store.store.clear()


# --- a manifest


class Reads:
    """Which files were read."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, source: Any, **options: Any) -> InventoryRow:  # noqa: ANN401
        self.names.append(str(source).rpartition("/")[2])
        return inventoried(source, **options)


@pytest.fixture
def reads() -> Generator[Reads]:
    counted = Reads()
    with mock.patch("archive.cli.inventory.inventoried", counted):
        yield counted


def test_a_second_run_reads_what_has_changed_and_what_could_not_be_read(zoo: Path, reads: Reads) -> None:
    noted = zoo / "zoo.manifest.jsonl"
    first = rows(zoo, "--manifest", noted, "-j", 1)
    assert len(reads.names) == 6
    reads.names.clear()
    assert rows(zoo, "--manifest", noted, "-j", 1) == first
    assert reads.names == ["cut.pt"]
    reads.names.clear()
    (zoo / "a.ptl").write_bytes(tampered(STACK, {"extra/x": b"1"}))
    (zoo / "new.ptl").write_bytes(STACK.read_bytes())
    second = rows(zoo, "--manifest", noted, "-j", 1)
    assert reads.names == ["a.ptl", "cut.pt", "new.ptl"]
    assert second == rows(zoo)
    assert {row["file"].rpartition("/")[2]: row.get("same_as") for row in second}["b.ptl"] == f"{zoo}/new.ptl"


def test_what_verify_has_looked_at_is_not_looked_at_again(zoo: Path, reads: Reads) -> None:
    noted = zoo / "zoo.manifest.jsonl"
    first = rows(zoo, "--manifest", noted, "--verify", "-j", 1)
    assert all(row["findings"] == {} and not row["unread"] for row in first if "error" not in row)
    reads.names.clear()
    assert rows(zoo, "--manifest", noted, "--verify", "-j", 1) == first
    assert reads.names == ["cut.pt"]


def test_a_run_that_was_killed_goes_on(zoo: Path, reads: Reads) -> None:
    noted = zoo / "zoo.manifest.jsonl"
    whole = rows(zoo, "--manifest", noted, "-j", 1)
    lines = noted.read_bytes().splitlines(keepends=True)
    noted.write_bytes(lines[0] + lines[1][: len(lines[1]) // 2])
    reads.names.clear()
    assert rows(zoo, "--manifest", noted, "-j", 1) == whole
    assert len(reads.names) == 5
    reads.names.clear()
    rows(zoo, "--manifest", noted, "-j", 1)
    assert reads.names == ["cut.pt"]


def test_another_question_is_asked_again(zoo: Path, reads: Reads) -> None:
    noted = zoo / "zoo.manifest.jsonl"
    rows(zoo / "a.ptl", "--manifest", noted)
    (row,) = rows(zoo / "a.ptl", "--manifest", noted, "--digest")
    assert len(reads.names) == 2
    assert row["digest"] == str(archive.digest(STACK))


@pytest.mark.parametrize(
    "line",
    [b"\xff\n", b"[]\n", b'{"asked": 1}\n', b"[" * 100_000 + b"\n", b"null\n"],
    ids=["bytes", "list", "other", "deep", "null"],
)
def test_lines_that_are_none_are_passed_over(zoo: Path, reads: Reads, line: bytes) -> None:
    noted = zoo / "zoo.manifest.jsonl"
    noted.write_bytes(line)
    assert rows(zoo / "a.ptl", "--manifest", noted) == rows(zoo / "a.ptl")
    assert len(reads.names) == 2


def test_facts_of_a_line_that_rows_do_not_have_are_read_again(zoo: Path, reads: Reads) -> None:
    noted = zoo / "zoo.manifest.jsonl"
    whole = rows(zoo / "a.ptl", "--manifest", noted)
    values = json.loads(noted.read_bytes())
    no_label = {**values["facts"], "label": "a@b"}
    for facts in ({"kind": "no kind"}, {"kind": "zip", "surprise": 1}, no_label, 7):
        noted.write_text(json.dumps({**values, "facts": facts}) + "\n")
        reads.names.clear()
        assert rows(zoo / "a.ptl", "--manifest", noted) == whole
        assert reads.names == ["a.ptl"]


# --- elsewhere


def test_a_bucket_is_listed_once_and_its_manifest_may_lie_in_it(zoo: Path, reads: Reads) -> None:
    with s3() as store:
        for path in sorted(path for path in zoo.rglob("*") if path.is_file()):
            store.put(str(path), f"models/zoo/{path.relative_to(zoo).as_posix()}")
        url, noted = "s3://models/zoo/", "s3://models/zoo.manifest.jsonl"
        first = rows(url, "--manifest", noted, "-j", 1)
        here = {row["file"].removeprefix(f"{zoo}/"): row for row in rows(zoo)}
        for row in first:
            other = here.pop(row["file"].removeprefix(url))
            for name in ("kind", "size", "elements", "debug_bytes", "contents", "release", "unread"):
                assert row.get(name) == other.get(name)
        assert not here
        reads.names.clear()
        assert rows(url, "--manifest", noted, "-j", 1) == first
        assert reads.names == ["cut.pt"]
        store.pipe_file("models/zoo/a.ptl", tampered(STACK, {"extra/x": b"1"}))
        reads.names.clear()
        rows(url, "--manifest", noted, "-j", 1)
        assert reads.names == ["a.ptl", "cut.pt"]


def test_a_server_that_names_no_version_is_asked_again(reads: Reads) -> None:
    with served({"/a.ptl": STACK.read_bytes()}) as server:
        store = fsspec.filesystem("memory")
        for tags, times in ((True, 1), (False, 2)):
            server.tags = tags
            reads.names.clear()
            for _ in range(2):
                rows(f"{server.url}/a.ptl", "--manifest", "memory://http.manifest.jsonl")
            assert len(reads.names) == times
            store.store.clear()


def test_a_page_does_not_say_unchecked_of_what_was_read_for_its_digest(zoo: Path) -> None:
    for words, expected in (((), "not checked"), (("--digest",), "read for its digest")):
        page = called("inspect", zoo / "shop.pt2", zoo / "state_dict.pt", "--format", "html", *words).stdout
        assert {*data_of(page.encode())["folder"]["files"]["state"]} == {expected}
