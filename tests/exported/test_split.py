"""Exported programs are split, joined to the byte, inspected and looked up; what is left runs in PyTorch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

import archive
from archive.base import json_text
from archive.base.errors import ArchiveError, NothingToDoError
from archive.base.json_text import read_json
from archive.companion.layout import CompanionLayout
from archive.container.serialization_id import RECORD_NAME
from archive.container.write import member_from, new_member
from archive.describe.inspect import inspect
from archive.formats.archive_id import archive_id
from archive.reader.lookups.nodes import found_nodes
from tests.support.canaries import rewritten
from tests.support.commands import run
from tests.support.documents import file_of
from tests.support.exported import EXPORTED, PROGRAMS, nodes, trees
from tests.support.sampling import crossed, sampled
from tests.support.zips import written

if TYPE_CHECKING:
    from pathlib import Path


SHOP = EXPORTED / "shop.pt2"


def halves(path: Path, folder: Path, layout: CompanionLayout = CompanionLayout.PACKED) -> tuple[Path, Path]:
    small, aside = folder / "small.pt2", folder / "model.ptdbg"
    archive.split(path, small, aside, layout=layout, force=True)
    return small, aside


@pytest.mark.parametrize("path", sampled(PROGRAMS), ids=lambda path: path.stem)
def test_a_join_gives_the_file_to_the_byte(path: Path, tmp_path: Path) -> None:
    for layout in CompanionLayout:
        small, aside = halves(path, tmp_path, layout)
        assert archive.join(small, aside, tmp_path / "back", force=True).exact
        assert (tmp_path / "back").read_bytes() == path.read_bytes()


def test_each_program_gets_its_own_metadata_back_in_a_zip_of_another_order(tmp_path: Path) -> None:
    path, turned, back = EXPORTED / "several.pt2", tmp_path / "turned.pt2", tmp_path / "back.pt2"
    small, aside = halves(path, tmp_path)
    with ZipFile(small) as ours, ZipFile(turned, "w") as zipped:
        for name in reversed(ours.namelist()):
            zipped.writestr(name, ours.read(name))
    assert archive.join(turned, aside, back).another
    with ZipFile(path) as before, ZipFile(back) as after:
        names = [
            name for name in before.namelist() if not name.endswith(RECORD_NAME)
        ]  # an id of all, in order
        assert {name: after.read(name) for name in names} == {name: before.read(name) for name in names}


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


CHOICES: list[tuple[tuple[str, ...], ...]] = [
    ((), (), ("modules",)),
    ((), ("modules", "traces"), ()),
    (("traces", "modules"), (), ("modules", "traces")),
    (("functions",), ("modules",), ("functions",)),
    (("origins", "other"), (), ("modules", "origins", "other")),
]
"""Kinds that are kept and dropped, and those that stay."""


@pytest.mark.parametrize(
    ("path", "choice"), crossed([STRICT, EXPORTED / "several.pt2", EXPORTED / "noted.pt2"], CHOICES)
)
def test_kinds_that_are_kept_stay_and_a_join_is_exact(
    path: Path, choice: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    keep, drop, kinds = *choice[:2], set(choice[2])
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

    def counted(data: memoryview) -> object:
        read.append(data)
        return read_json(data)

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
    from tests.support.running_exported import known_outcomes, outcomes  # noqa: PLC0415 (needs PyTorch)

    programs = ["shop_dynamic", "choice_strict", "sums", "counter", "decoder_decomposed", "several"]
    for name in sampled(programs, most=3):
        path = EXPORTED / f"{name}.pt2"
        small, _ = halves(path, tmp_path)
        assert outcomes(small) == known_outcomes(path), path


@pytest.mark.torch
@pytest.mark.filterwarnings(
    "ignore:.isinstance.treespec, LeafSpec.. is deprecated:FutureWarning"
)  # unflatten's
def test_pytorch_makes_the_same_modules_of_what_is_left_unless_they_are_dropped(tmp_path: Path) -> None:
    from tests.support.running_exported import known_outcomes, outcomes  # noqa: PLC0415 (needs PyTorch)

    for name in sampled(["shop", "choice_strict", "counter", "own", "decoder_decomposed"], most=2):
        path = EXPORTED / f"{name}.pt2"
        small, _ = halves(path, tmp_path)
        assert outcomes(small, unflattened=True) == known_outcomes(path, unflattened=True), path
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


# --- ``inspect`` and ``symbolicate`` of exported programs


def test_a_node_leads_to_its_modules_and_lines() -> None:
    done = run("symbolicate", SHOP, "embedding_1")
    assert done.returncode == 0
    assert done.stdout.decode() == (
        "Module hierarchy:top(Shop).goods(Lookup).rows(Embedding).aten.embedding.default\n"
        "Original traceback:\n"
        'File "models/shop.py", line 42, in forward\n'
        "    b = self.price(self.goods(second))\n"
        '  File "models/shop.py", line 23, in forward\n'
        "    return self.norm(self.smooth(self.rows(ids)))\n"
        '  File "/opt/py/lib/python3.11/site-packages/torch/nn/modules/sparse.py", line 189, in forward\n'
        "    return F.embedding(\n"
    )


def test_every_node_of_every_program_is_found_by_its_key() -> None:
    for path in PROGRAMS:
        with archive.open(path) as opened:
            for name, program in opened.programs.items():
                for key, site in program.sites.items():
                    assert [node.site for node in found_nodes(opened.programs, f"{name}:{key}")] == [site]


def test_programs_whose_names_have_colons_are_found() -> None:
    with archive.open(EXPORTED / "several.pt2") as opened:
        programs = {f"a:{name}:": program for name, program in opened.programs.items()}
        for name, program in programs.items():
            for key, site in program.sites.items():
                assert [node.site for node in found_nodes(programs, f"{name}:{key}")] == [site]


def test_a_name_that_only_inner_graphs_have_is_told_of_each() -> None:
    done = run("symbolicate", EXPORTED / "choice_strict.pt2", "embedding", "cond")
    titles = [line for line in done.stdout.decode().splitlines() if line.startswith("node ")]
    assert titles == [
        "node cond.true_graph_0/cond.true_graph_0/embedding:",
        "node cond.true_graph_0/cond.false_graph_0/embedding:",
        "node cond:",
    ]


def test_a_program_may_stand_before_the_node() -> None:
    facts = file_of(run("symbolicate", EXPORTED / "several.pt2", "steps:gru", "--json").stdout)
    (node,) = facts["symbolications"]
    assert (node["program"], node["node"], node["target"]) == ("steps", "gru", "torch.ops.aten.gru.input")
    assert [module["path"] for module in node["modules"]] == ["", "rnn"]
    assert node["frames"][0]["source"] == "return self.rnn(self.words(ids))[0][:, -1]"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("embeding_1", "no node 'embeding_1'; there are embedding_1, embedding, …"),
        ("42", "an exported program has nodes; give the name of one, like linear_3"),
    ],
)
def test_a_node_that_is_not_there_is_told_with_those_alike(asked: str, said: str) -> None:
    done = run("symbolicate", SHOP, asked)
    assert done.returncode == 1
    assert said in done.stderr.decode()


def test_a_node_without_source_is_told() -> None:
    done = run("symbolicate", EXPORTED / "regions.pt2", "exp")
    assert done.returncode == 1
    assert done.stdout.endswith(b"Original traceback:\nNone\n")
    assert b"no source is recorded for exp" in done.stderr


def test_inspect_counts_what_is_in_each_program() -> None:
    facts = file_of(run("inspect", EXPORTED / "several.pt2", "--json").stdout)
    for name, tree in trees(EXPORTED / "several.pt2").items():
        found = list(nodes(tree))
        told = facts["programs"][name]
        assert told["nodes"] == len(found)
        assert told["traced"] == sum("stack_trace" in node["metadata"] for node in found)
        assert told["metadata_bytes"] == sum(len(json.dumps(node["metadata"])) - 2 for node in found)
    assert facts["programs"]["choice"]["graphs"] == 4


def test_inspect_of_a_program_that_is_broken_still_lists_its_files(tmp_path: Path) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(written(new_member("archive_format", b"pt2"), new_member("models/model.json", b"{}")))
    done = run("inspect", path)
    assert done.returncode == 0
    assert b"its programs are not known: models/model.json, graph_module: expected an object" in done.stdout
    assert b"archive_format" in done.stdout


def test_a_file_that_is_cut_or_of_another_kind_is_told_before_its_nodes(tmp_path: Path) -> None:
    cut, page = tmp_path / "cut.pt2", EXPORTED.parent / "kinds" / "page.pt"
    cut.write_bytes(SHOP.read_bytes()[:3000])
    for path, said in ((cut, b"copy or download the whole file again"), (page, b"a download has gone wrong")):
        done = run("symbolicate", path, "linear")
        assert done.returncode == 2
        assert said in done.stderr


def test_a_file_of_a_package_that_is_named_like_a_program_is_none(tmp_path: Path) -> None:
    source = EXPORTED.parent / "oracles" / "plain_stack.ptl"
    path = tmp_path / "named.ptl"
    with archive.open(source) as before:
        members = [member_from(record) for record in before.container.records.values()]
    path.write_bytes(written(*members, new_member("models/config.json", b"{}")))
    with archive.open(path) as opened:
        assert dict(opened.programs) == {}
        assert inspect(opened).programs == {}
    small, aside, back = tmp_path / "small.ptl", tmp_path / "model.ptdbg", tmp_path / "back.ptl"
    archive.split(path, small, aside)
    archive.join(small, aside, back)
    with archive.open(back) as joined:
        assert bytes(joined.records["models/config.json"].view()) == b"{}"


def test_nodes_and_handles_have_the_keys_of_one_report() -> None:
    shared = {"found", "module_hierarchy", "ops", "frames", "text"}
    handle = run("symbolicate", EXPORTED.parent / "oracles" / "lowered_shape.ptl", "1,26", "--json")
    node = run("symbolicate", EXPORTED / "shop.pt2", "embedding_1", "--json")
    ((of_handle,), (of_node,)) = (file_of(done.stdout)["symbolications"] for done in (handle, node))
    assert of_handle.keys() - {"handles"} == shared
    assert of_node.keys() - {"asked", "program", "node", "target", "modules"} == shared
    columns = {"first_column", "last_line", "last_column"}
    assert of_node["frames"][0].keys() - {"mark"} == of_handle["frames"][0].keys() - columns
    for one in (of_handle, of_node):
        assert one["text"].startswith(f"Module hierarchy:{one['module_hierarchy']}\n")
        assert one["module_hierarchy"].endswith(one["ops"][0])


def test_the_id_of_a_program_costs_no_more_memory_than_the_file_may(tmp_path: Path) -> None:
    program, companion = tmp_path / "s.pt2", tmp_path / "s.ptdbg"
    archive.split(SHOP, program, companion)
    many = b"[" + b"[]," * (1 << 20) + b"[]]"
    data = rewritten(SHOP.read_bytes(), lambda name, old: many if name == "models/model.json" else old)
    with archive.open(data) as opened, pytest.raises(archive.LimitError):
        _ = opened.archive_id
    with pytest.raises(archive.LimitError):
        archive.open(data, companion=companion)
