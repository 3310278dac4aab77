"""Exported programs are split and joined: to the byte, and what is left runs in PyTorch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base import json_text
from archive.base.errors import ArchiveError, NothingToDoError
from archive.base.json_text import read_json
from archive.companion.layout import CompanionProfile
from archive.container.container import new_member
from archive.formats.archive_id import archive_id
from tests.support.commands import run
from tests.support.exported import EXPORTED, PROGRAMS, nodes, trees
from tests.support.sampling import sampled
from tests.support.zips import written

if TYPE_CHECKING:
    from pathlib import Path

    from archive.base.limits import Allowance

SHOP = EXPORTED / "shop.pt2"


def halves(
    path: Path, folder: Path, profile: CompanionProfile = CompanionProfile.PACKED
) -> tuple[Path, Path]:
    small, aside = folder / "small.pt2", folder / "model.ptdbg"
    archive.split(path, small, aside, profile=profile, force=True)
    return small, aside


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_a_join_gives_the_file_to_the_byte(path: Path, tmp_path: Path) -> None:
    for profile in CompanionProfile:
        small, aside = halves(path, tmp_path, profile)
        assert archive.join(small, aside, tmp_path / "back", force=True).exact
        assert (tmp_path / "back").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_a_companion_answers_like_the_archive_with_what_is_left_and_alone(path: Path, tmp_path: Path) -> None:
    small, aside = halves(path, tmp_path)
    with (
        archive.open(path) as before,
        archive.open(small, companion=aside) as both,
        archive.open(aside) as alone,
    ):
        assert list(before.programs) == list(both.programs) == list(alone.programs)
        assert before.archive_id == both.archive_id == alone.archive_id
        for name, program in before.programs.items():
            for key, site in program.sites.items():
                again, known = both.programs[name].sites[key], alone.programs[name].sites[key]
                assert list(again.metadata.items()) == list(site.metadata.items())
                assert again.arguments == site.arguments
                assert known.metadata == site.metadata
                assert (known.name, known.target, known.scopes) == (site.name, site.target, site.scopes)


STRICT = EXPORTED / "choice_strict_decomposed.pt2"
KEYS = {
    "traces": {"stack_trace"},
    "modules": {"nn_module_stack"},
    "functions": {"torch_fn", "source_fn_stack"},
    "origins": {"from_node"},
    "other": {"custom"},
}


def is_left_with(path: Path, kinds: set[str], small: Path) -> None:
    """What is left of each node's metadata is that of some kinds, in the order that it had."""
    keys = set().union(*(KEYS[kind] for kind in kinds))
    for tree, before in zip(trees(small).values(), trees(path).values(), strict=True):
        for node, whole in zip(nodes(tree), nodes(before), strict=True):
            kept = {key: text for key, text in whole["metadata"].items() if key in keys}
            assert list(node["metadata"].items()) == list(kept.items())


@pytest.mark.parametrize("path", [STRICT, EXPORTED / "several.pt2", EXPORTED / "noted.pt2"])
@pytest.mark.parametrize(
    ("keep", "drop", "kinds"),
    [
        ((), (), {"modules"}),
        ((), ("modules", "traces"), set()),
        (("traces", "modules"), (), {"modules", "traces"}),
        (("functions",), ("modules",), {"functions"}),
        (("origins", "other"), (), {"modules", "origins", "other"}),
    ],
)
def test_kinds_that_are_kept_stay_and_a_join_is_exact(
    path: Path, keep: tuple[str, ...], drop: tuple[str, ...], kinds: set[str], tmp_path: Path
) -> None:
    small, aside = tmp_path / "small.pt2", tmp_path / "model.ptdbg"
    done = archive.split(path, small, aside, keep=keep, drop=drop)
    is_left_with(path, kinds, small)
    there = {
        kind
        for kind in KEYS
        for tree in trees(path).values()
        for node in nodes(tree)
        if KEYS[kind] & node["metadata"].keys()
    }
    told = {"other" if kind == "other metadata" else kind for kind in done.kept_kinds}
    assert told == kinds & there
    assert archive.join(small, aside, tmp_path / "back").exact
    assert (tmp_path / "back").read_bytes() == path.read_bytes()


def test_the_companion_has_what_stays_too(tmp_path: Path) -> None:
    asides = []
    for number, keep in enumerate(((), ("traces", "origins"))):
        archive.split(STRICT, tmp_path / "small.pt2", aside := tmp_path / str(number), keep=keep, force=True)
        asides.append(aside.read_bytes())
    assert asides[0] == asides[1]


def test_what_is_not_asked_of_an_archive_is_refused_or_no_matter(tmp_path: Path) -> None:
    script = EXPORTED.parent / "oracles" / "plain_stack.pt"
    small, aside = tmp_path / "small", tmp_path / "aside"
    done = run("split", script, "-o", small, "-c", aside, "--keep", "traces")
    assert done.returncode == 2
    assert (
        b"kinds are kept and dropped in exported programs and compiled models, and it has none" in done.stderr
    )
    done = run("split", SHOP, "-o", small, "-c", aside, "--keep", "traces", "--drop", "traces")
    assert done.returncode == 2
    assert b"traces cannot be both kept and dropped" in done.stderr
    with pytest.raises(ArchiveError, match="expected a kind: traces, modules, functions, origins, handles"):
        archive.split(SHOP, small, aside, keep=["lines"])
    assert not small.exists()


def test_a_record_is_read_once_for_its_nodes_and_for_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = EXPORTED / "several.pt2", []

    def counted(data: memoryview, allowance: Allowance) -> object:
        read.append(data)
        return read_json(data, allowance)

    monkeypatch.setattr(json_text, "read_json", counted)
    with archive.open(path) as opened:
        left = opened.programs.left
        sites = {name: program.sites.values() for name, program in opened.programs.items()}
        assert archive_id(opened.container.records, left) == opened.archive_id
    assert len(read) == len(left) == len(sites) == len(trees(path))
    for name, tree in trees(path).items():
        assert [site.metadata for site in sites[name]] == [node["metadata"] for node in nodes(tree)]
        assert all(node["metadata"] == {} for node in nodes(json.loads(left[f"models/{name}.json"])))


def test_a_log_is_explained_by_the_companion_alone(tmp_path: Path) -> None:
    _, aside = halves(SHOP, tmp_path)
    done = run("symbolicate", aside, stdin=(EXPORTED / "shop.interpreter.stripped.txt").read_bytes())
    assert done.stdout == (EXPORTED / "shop.interpreter.txt").read_bytes()


def test_nodes_are_looked_up_in_both_halves(tmp_path: Path) -> None:
    small, aside = halves(SHOP, tmp_path)
    whole = run("symbolicate", SHOP, "embedding_1").stdout
    assert run("symbolicate", small, "-c", aside, "embedding_1").stdout == whole
    assert run("symbolicate", aside, "embedding_1").stdout == whole
    done = run("symbolicate", small, "embedding_1")
    assert done.returncode == 1
    with archive.open(aside) as opened:
        name = f"the companion with the archive id {opened.archive_id.hex()} (-c COMPANION)"
    why = f"no node has a stack trace; if `split` took them out, they are in {name}\n"
    assert done.stderr.decode().endswith(f"small.pt2: no source is recorded for embedding_1: {why}")


def test_the_commands_tell_what_they_did(tmp_path: Path) -> None:
    small, aside, back = tmp_path / "small.pt2", tmp_path / "model.ptdbg", tmp_path / "back.pt2"
    done = run("split", SHOP, "-o", small, "-c", aside).stdout.decode()
    assert "refuses" not in done
    assert "`debug-archive join` gives the original file, byte for byte" in done
    done = run("join", small, "-c", aside, "-o", back).stdout.decode()
    assert "with the metadata of 1 exported program again" in done
    assert "model" in run("inspect", aside).stdout.decode()


def test_what_is_left_is_split_again_only_if_less_is_to_stay(tmp_path: Path) -> None:
    small, aside = halves(SHOP, tmp_path)
    with pytest.raises(NothingToDoError, match="no debug info in it but modules, to be kept"):
        archive.split(small, tmp_path / "a", tmp_path / "b")
    smaller = tmp_path / "smaller.pt2"
    archive.split(small, smaller, tmp_path / "b", drop=["modules"])
    is_left_with(SHOP, set(), smaller)
    assert archive.join(smaller, aside, tmp_path / "back").exact
    with pytest.raises(NothingToDoError, match=r"no debug info in it$"):
        archive.split(smaller, tmp_path / "a", tmp_path / "b", force=True)


def test_another_models_companion_is_refused(tmp_path: Path) -> None:
    small, _ = halves(SHOP, tmp_path)
    other, aside = tmp_path / "other.pt2", tmp_path / "other.ptdbg"
    archive.split(EXPORTED / "own.pt2", other, aside)
    with pytest.raises(ArchiveError, match="another"):
        archive.join(small, aside, tmp_path / "back")


def test_a_companion_of_another_export_of_the_model_does_not_give_the_original(tmp_path: Path) -> None:
    """Exports of one model have one archive id, and other lines."""
    canonical = tmp_path / "canonical.pt2"
    archive.canonicalise(EXPORTED / "shop_strict.pt2", canonical)
    small, _ = halves(EXPORTED / "shop_strict.pt2", tmp_path)
    archive.split(canonical, tmp_path / "other.pt2", tmp_path / "other.ptdbg")
    told = run("join", small, "-c", tmp_path / "other.ptdbg", "-o", tmp_path / "back").stdout.decode()
    assert "the original records" not in told
    assert " is not the original file: archive and companion are of two files of one model" in told


def test_a_program_that_would_not_come_back_is_not_split(tmp_path: Path) -> None:
    path = tmp_path / "odd.pt2"
    odd = json.dumps(trees(SHOP)["model"], separators=(",", ":")).encode()
    path.write_bytes(written(new_member("archive_format", b"pt2"), new_member("models/odd.json", odd)))
    why = "no debug info in it; models/odd.json stays as it is, for its JSON is not as PyTorch writes it"
    with pytest.raises(NothingToDoError, match=why):
        halves(path, tmp_path)


def test_json_that_json_dumps_did_not_write_keeps_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "odd.pt2"
    programs = {"plain": json.dumps(trees(SHOP)["model"]), "odd": json.dumps(trees(SHOP)["model"], indent=1)}
    members = [new_member(f"models/{name}.json", text.encode()) for name, text in programs.items()]
    path.write_bytes(written(new_member("archive_format", b"pt2"), *members))
    small, aside = halves(path, tmp_path)
    said = run("split", path, "-o", small, "-c", aside, "--force").stdout.decode()
    assert "models/odd.json stayed as it is: its JSON is not as PyTorch writes it" in said
    left = trees(small)
    assert all(node["metadata"].keys() <= {"nn_module_stack"} for node in nodes(left["plain"]))
    assert left["odd"] == trees(SHOP)["model"]
    archive.join(small, aside, tmp_path / "back")
    with archive.open(path) as before, archive.open(tmp_path / "back") as after:
        for name, record in before.records.items():
            assert after.records[name].view() == record.view()


@pytest.mark.torch
def test_what_is_left_gives_the_same_in_pytorch(tmp_path: Path) -> None:
    from tests.support.running_exported import outcomes  # noqa: PLC0415 (needs PyTorch)

    for name in ("shop_dynamic", "choice_strict", "sums", "counter", "decoder_decomposed", "several"):
        path = EXPORTED / f"{name}.pt2"
        small, _ = halves(path, tmp_path)
        assert outcomes(small) == outcomes(path), path


@pytest.mark.torch
@pytest.mark.filterwarnings(
    "ignore:.isinstance.treespec, LeafSpec.. is deprecated:FutureWarning"
)  # unflatten's
def test_pytorch_makes_the_same_modules_of_what_is_left_unless_they_are_dropped(tmp_path: Path) -> None:
    from tests.support.running_exported import outcomes  # noqa: PLC0415 (needs PyTorch)

    for name in ("shop", "choice_strict", "counter", "own", "decoder_decomposed"):
        path = EXPORTED / f"{name}.pt2"
        small, _ = halves(path, tmp_path)
        assert outcomes(small, unflattened=True) == outcomes(path, unflattened=True), path
    archive.split(SHOP, bare := tmp_path / "bare.pt2", tmp_path / "model.ptdbg", drop=["modules"], force=True)
    with pytest.raises(ValueError, match="not enough values to unpack"):
        outcomes(bare, unflattened=True)


def test_a_folder_of_programs_and_archives_is_split_and_joined(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for path in (SHOP, EXPORTED / "own.pt2", EXPORTED.parent / "oracles" / "plain_stack.ptl"):
        (models / path.name).write_bytes(path.read_bytes())
    small, aside, back = tmp_path / "small", tmp_path / "aside", tmp_path / "back"
    assert run("split", models, "-o", small, "-c", aside, "-j", 1, "--drop", "modules").returncode == 0
    is_left_with(SHOP, set(), small / SHOP.name)
    again = run("split", models, "-o", small, "-c", aside, "-j", 1, "--drop", "modules").stdout
    assert again.count(b": same\n") == 3
    assert run("join", small, "-c", aside, "-o", back, "-j", 1).returncode == 0
    for path in models.iterdir():
        assert (back / path.name).read_bytes() == path.read_bytes()


def test_a_program_that_would_cost_a_join_more_than_it_allows_stays_stored(tmp_path: Path) -> None:
    node = {"target": "f", "inputs": [], "outputs": [], "metadata": {"torch_fn": "a;b"}}
    many = [{**node, "name": f"node_{number}"} for number in range(8_000)]
    tree = {"graph_module": {"graph": {"nodes": many}}}
    path = tmp_path / "many.pt2"
    members = [
        new_member("archive_format", b"pt2"),
        new_member("models/model.json", json.dumps(tree).encode()),
    ]
    for name, weights, how in (("alone", 0, "stored"), ("heavy", 1 << 23, "deflated")):
        path.write_bytes(
            written(*members, new_member("data/weights/weight_0", bytes(weights), compress=False))
        )
        small, aside = halves(path, tmp_path)
        with archive.open(small) as opened:
            assert opened.records["models/model.json"].compression == how, name
        assert archive.join(small, aside, tmp_path / "back", force=True).exact is not None
