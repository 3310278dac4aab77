"""Exported programs are shrunk: every record stays, PyTorch runs them, and embedded ones are restored."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from typing import TYPE_CHECKING
from unittest import mock

import fsspec
import pytest

import archive
from archive.base.errors import ArchiveError, NothingToDoError
from archive.base.json_text import json_cost, read_json
from archive.base.limits import Limits
from archive.container.write import member_from, new_member
from archive.formats.record_kinds import EMBEDDED_IN_EXPORTED
from archive.store.store import Store
from tests.support.commands import run
from tests.support.documents import file_of
from tests.support.exported import EXPORTED, PROGRAMS
from tests.support.sampling import crossed, sampled
from tests.support.zips import written

if TYPE_CHECKING:
    from pathlib import Path

    from archive.container.write import Member

SHOP, STRICT = EXPORTED / "shop.pt2", EXPORTED / "choice_strict.pt2"
LITE = EXPORTED.parent / "oracles" / "plain_stack.ptl"
ALIGNED = 64


def records(path: Path) -> dict[str, bytes]:
    """The records by name, without the serialization id, which is made of the others."""
    with zipfile.ZipFile(path) as opened:
        named = {name.partition("/")[2]: opened.read(name) for name in opened.namelist()}
    return {name: data for name, data in named.items() if name != ".data/serialization_id"}


def shrunk(path: Path, folder: Path, level: str = "embed") -> Path:
    small = folder / "small.pt2"
    archive.shrink(path, small, level=level, force=True)
    return small


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_a_compact_archive_has_the_same_records_and_its_tensors_stay_where_pytorch_maps_them(
    path: Path, tmp_path: Path
) -> None:
    small = shrunk(path, tmp_path, "compact")
    assert records(small) == records(path)
    assert small.stat().st_size < path.stat().st_size
    with archive.open(small) as opened:
        for name, record in opened.container.records.items():
            if name.startswith(("data/weights/weight_", "data/constants/tensor_")) and record.size:
                assert record.compression == "stored"
                assert record.place.data % ALIGNED == 0
            if name.startswith("models/"):
                assert record.compression == "deflated"


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_an_embedded_archive_is_read_as_before_and_restored_to_the_byte(path: Path, tmp_path: Path) -> None:
    small, back = shrunk(path, tmp_path), tmp_path / "back"
    with archive.open(path) as before, archive.open(small) as after:
        assert before.archive_id == after.archive_id
        assert EMBEDDED_IN_EXPORTED not in after.records
        after.save(tmp_path / "again")
        for name, program in before.programs.items():
            for key, site in program.sites.items():
                again = after.programs[name].sites[key]
                assert again.metadata == site.metadata
                assert again.arguments == site.arguments
    assert (tmp_path / "again").read_bytes() == small.read_bytes()
    assert archive.restore(small, back).exact
    assert back.read_bytes() == path.read_bytes()


def test_pytorch_finds_the_modules_alone_in_an_embedded_archive_unless_told_otherwise(tmp_path: Path) -> None:
    for keep, drop, keys in (
        ((), (), {"nn_module_stack"}),
        ((), ("modules",), set()),
        (("traces",), (), {"nn_module_stack", "stack_trace"}),
    ):
        done = archive.shrink(STRICT, tmp_path / "small", level="embed", keep=keep, drop=drop, force=True)
        inside = json.loads(records(tmp_path / "small")["models/model.json"])
        found = {key for node in inside["graph_module"]["graph"]["nodes"] for key in node["metadata"]}
        assert found == keys
        assert len(done.kept_kinds) == len(keys)
        assert archive.restore(tmp_path / "small", tmp_path / "back", force=True).exact


def test_nodes_and_logs_are_explained_from_inside(tmp_path: Path) -> None:
    small = shrunk(SHOP, tmp_path)
    assert run("symbolicate", small, "embedding_1").stdout == run("symbolicate", SHOP, "embedding_1").stdout
    log = (EXPORTED / "shop.interpreter.stripped.txt").read_bytes()
    assert run("symbolicate", small, stdin=log).stdout == (EXPORTED / "shop.interpreter.txt").read_bytes()
    told = [file_of(run("inspect", path, "--json").stdout)["programs"] for path in (SHOP, small)]
    assert told[0] == told[1]


@pytest.mark.torch
@pytest.mark.filterwarnings(
    "ignore:.isinstance.treespec, LeafSpec.. is deprecated:FutureWarning"
)  # unflatten's
@pytest.mark.parametrize(("level", "name"), crossed(["compact", "embed"], ["several", STRICT.stem], most=2))
def test_pytorch_runs_what_was_shrunk(level: str, name: str, tmp_path: Path) -> None:
    from tests.support.running_exported import known_outcomes, outcomes  # noqa: PLC0415 (needs PyTorch)

    path = EXPORTED / f"{name}.pt2"
    unflattened = name == "choice_strict"
    small = shrunk(path, tmp_path, level)
    assert outcomes(small, unflattened=unflattened) == known_outcomes(path, unflattened=unflattened)


@pytest.mark.torch
def test_pytorch_hands_out_the_extra_files_of_before(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 (an extra)

    path = EXPORTED / "shop_extra.pt2"
    for level in ("compact", "embed"):
        found = []
        for one in (path, shrunk(path, tmp_path, level)):
            found.append(dict.fromkeys(("a/b.txt", "c"), ""))
            torch.export.load(one, extra_files=found[-1])
        assert found[0] == found[1] == {"a/b.txt": "Größe", "c": "{}"}


def test_a_folder_is_shrunk_and_restored(tmp_path: Path) -> None:
    models, small, back = tmp_path / "models", tmp_path / "small", tmp_path / "back"
    models.mkdir()
    for path in (SHOP, STRICT, LITE):
        (models / path.name).write_bytes(path.read_bytes())
    options = ("-j", 1, "--level", "embed", "--drop", "modules", "--handles", "keep")
    would = run("shrink", models, "-o", small, *options, "--dry-run").stdout.decode()
    done = run("shrink", models, "-o", small, *options)
    assert done.returncode == 0, "options are for those that they fit"
    for path in (SHOP, STRICT, LITE):
        assert f"would write {small / path.name}: {(small / path.name).stat().st_size:,} bytes" in would
    lines = [json.loads(line) for line in (tmp_path / "small.manifest.jsonl").read_text().splitlines()]
    assert {tuple(line["options"].get("drop", ())) for line in lines if "options" in line} == {("modules",)}
    assert run("restore", small, "-o", back, "-j", 1).returncode == 0
    for path in (SHOP, STRICT, LITE):
        assert (back / path.name).read_bytes() == path.read_bytes()


def test_a_store_takes_the_companion_inside(tmp_path: Path) -> None:
    small, aside = shrunk(SHOP, tmp_path), tmp_path / "model.ptdbg"
    archive.split(SHOP, tmp_path / "bare.pt2", aside)
    for number, path in enumerate((small, SHOP)):
        store = tmp_path / str(number)
        assert run("store", "add", path, "--store", store).returncode == 0
        with archive.open(SHOP) as opened, Store.open(store) as kept:
            assert kept.companion(opened.archive_id.hex()) == aside.read_bytes()
    done = run("store", "add", tmp_path / "bare.pt2", "--store", tmp_path / "none")
    assert b"no debug info in it; skipped" in done.stderr


@pytest.fixture(scope="module")
def of_each_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, an embedded one, a companion and a lite archive."""
    folder = tmp_path_factory.mktemp("kinds")
    shrunk(SHOP, folder).rename(folder / "small")
    archive.split(SHOP, folder / "bare", folder / "other")
    (folder / "whole").write_bytes(SHOP.read_bytes())
    (folder / "lite").write_bytes(LITE.read_bytes())
    return folder


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("shrink small -o out", "its debug info is in an embedded companion; `restore` it first"),
        ("split small -o out -c aside", "its debug info is in an embedded companion; `restore` it first"),
        ("join small -o out -c other", "has a companion of its own inside; `restore` it"),
        ("restore whole -o out", f"no embedded companion ({EMBEDDED_IN_EXPORTED}) in it"),
        ("shrink whole -o out --drop modules", "compact archives keep all debug info"),
        (
            "shrink lite -o out --level embed --keep traces",
            "kept and dropped in exported programs and compiled models, and it has none",
        ),
        (
            "migrate whole -o out --to latest",
            "only TorchScript is migrated: export the model with the release",
        ),
    ],
)
def test_what_is_not_done_is_told(
    command: str, said: str, of_each_kind: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(of_each_kind)
    done = run(*command.split())
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert not (of_each_kind / "out").exists()


def test_a_companion_inside_that_is_none_or_another_models_is_refused(tmp_path: Path) -> None:
    small, other = shrunk(SHOP, tmp_path), tmp_path / "other"
    archive.split(STRICT, tmp_path / "bare", other)
    with archive.open(small) as opened:
        members = [
            member_from(record)
            for name, record in opened.container.records.items()
            if name != EMBEDDED_IN_EXPORTED
        ]
    for inside, said in ((b"notes", "expected a companion"), (other.read_bytes(), "of another model")):
        path = tmp_path / "forged.pt2"
        path.write_bytes(written(*members, new_member(EMBEDDED_IN_EXPORTED, inside)))
        with pytest.raises(ArchiveError, match=said):
            archive.open(path)
        done = run("inspect", path)
        assert done.returncode == 0
        assert "its programs are not known" in done.stdout.decode()


def test_a_compact_archive_whose_program_is_another_is_not_written(tmp_path: Path) -> None:
    archive.split(SHOP, tmp_path / "bare", tmp_path / "aside")
    bare = records(tmp_path / "bare")["models/model.json"]

    def without_metadata(name: str, *_: object) -> Member:
        return new_member(name, bare)

    with (
        mock.patch("archive.reader.halves.slim._joined_member", without_metadata),
        pytest.raises(ArchiveError, match=r"models/model\.json: would change; nothing is written"),
    ):
        archive.shrink(SHOP, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_has_no_debug_info_is_not_embedded(tmp_path: Path) -> None:
    archive.split(SHOP, tmp_path / "bare", tmp_path / "aside", drop=["modules"])
    with pytest.raises(NothingToDoError, match="no debug info in it"):
        archive.shrink(tmp_path / "bare", tmp_path / "out", level="embed")
    assert archive.shrink(tmp_path / "bare", tmp_path / "out").out_size <= (tmp_path / "bare").stat().st_size


MANY = 20_000
TEXTS = {
    "lists": "[" + ",".join(["[]"] * MANY) + "]",
    "lists inside": "[" + ",".join(["[[[[[]]]]]"] * MANY) + "]",
    "objects": "[" + ",".join(["{}"] * MANY) + "]",
    "objects of one key": "[" + ",".join(['{"a":{"a":{}}}'] * MANY) + "]",
    "an object just grown": "{" + ",".join(f'"{key:x}":0' for key in range(21_846)) + "}",
    "wide keys": "{" + ",".join(f'"\\u{key:04x}":0' for key in range(0x3000, 0x8000)) + "}",
    "numbers": "[" + ",".join(["1000"] * MANY) + "]",
    "short numbers": "[" + ",".join(["-9"] * MANY) + "]",
    "long numbers": "[" + ",".join(["9" * 4000] * 20) + "]",
    "fractions": "[" + ",".join(["1.5"] * MANY) + "]",
    "texts": "[" + ",".join(['"ab"'] * MANY) + "]",
    "a text": '"' + "a" * MANY + '"',
    "a text of escapes": '"' + "a\\n" * MANY + '"',
    "a wide text": '"\\ud83d\\ude00' + "a" * MANY + '"',
    "a wide text, raw": '"' + "a" * MANY + '\U0001f600"',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_json_costs_no_more_memory_than_its_characters_tell(text: str) -> None:
    data = text.encode()
    tracemalloc.start()
    try:
        read_json(memoryview(data))
        cost = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert cost <= json_cost(data)


def test_a_large_program_beside_few_weights_is_deflated(tmp_path: Path) -> None:
    """As those of PyTorch are: its characters cost a fraction of what JSON could cost."""
    with archive.open(SHOP) as opened:
        members = [member_from(record) for record in opened.container.records.values()]
        (at,) = (number for number, one in enumerate(members) if one.name == "models/model.json")
        data = bytes(opened.container.records["models/model.json"].view())
    tree = json.loads(data)
    node = tree["graph_module"]["graph"]["nodes"][0]
    tree["graph_module"]["graph"]["nodes"] += [{**node, "name": f"more_{number}"} for number in range(400)]
    members[at] = new_member("models/model.json", json.dumps(tree).encode(), compress=False)
    path = tmp_path / "large.pt2"
    path.write_bytes(written(*members))
    small = shrunk(path, tmp_path)
    with archive.open(small, limits=Limits()) as opened:
        assert opened.container.records["models/model.json"].compression == "deflated"
        assert len(opened.programs["model"].sites) > 400
    assert archive.restore(small, tmp_path / "back").programs == 1


def test_what_lies_elsewhere_is_shrunk_there_and_read_by_ranges() -> None:
    store = fsspec.filesystem("memory")
    url = "memory://programs"
    store.pipe_file(f"{url}/shop.pt2", SHOP.read_bytes())
    try:
        done = run("shrink", f"{url}/shop.pt2", "-o", f"{url}/small.pt2", "--level", "embed")
        assert done.returncode == 0
        assert run("symbolicate", f"{url}/small.pt2", "linear_3").stdout.startswith(
            b"Module hierarchy:top(Shop)"
        )
        assert run("restore", f"{url}/small.pt2", "-o", f"{url}/back.pt2").returncode == 0
        assert store.cat_file(f"{url}/back.pt2") == SHOP.read_bytes()
    finally:
        store.rm(url, recursive=True)
