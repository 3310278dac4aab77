"""The laws of digests: what changes them, and what does not."""

from __future__ import annotations

import hashlib
import io
import json
import re
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError
from archive.compare.digest import VERSIONS, value_of, values
from archive.compare.sameness import Level
from archive.formats.record_kinds import DELEGATES, HANDLES, OUTPUTS
from tests.support.corpus import FIXTURES, ORACLES, RELEASES
from tests.support.cost import loops_below
from tests.support.range_server import served
from tests.support.sampling import examples, sampled
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NEW = RELEASES / "torch-2.13.0"
MODELS = [
    *(
        NEW / name
        for name in ("nested.pt", "nested.ptl", "traced.ptl", "lowered.ptl", "unicode.pt", "consts.pt")
    ),
    FIXTURES / "exported/decoder.pt2",
]


@cache
def whole(path: Path) -> archive.Digest:
    return archive.digest(path)


def model(path: Path) -> str:
    return whole(path).value


def of(data: bytes) -> archive.Digest:
    return archive.digest(data)


@pytest.mark.parametrize(
    "path", sampled(MODELS, most=4, by=[lambda path: path.suffix]), ids=lambda path: path.name
)
def test_a_model_split_joined_and_made_small_has_the_same_digest(path: Path, tmp_path: Path) -> None:
    left, half, small = tmp_path / "left.pt", tmp_path / "half", tmp_path / "small.pt"
    archive.split(path, left, half)
    archive.join(left, half, tmp_path / "joined.pt")
    archive.shrink(path, small)
    archive.shrink(path, tmp_path / "embedded.pt", level="embed")
    for name in ("left.pt", "joined.pt", "small.pt", "embedded.pt"):
        assert model(tmp_path / name) == model(path), name
    if path.suffix == ".pt2":
        archive.canonicalise(path, tmp_path / "canonical.pt2")
        assert model(tmp_path / "canonical.pt2") == model(path)


@pytest.mark.parametrize("to", ["1.9", "1.12", "2.13"])
@pytest.mark.parametrize("name", ["nested.pt", "nested.ptl", "traced.ptl"])
def test_a_migrated_model_has_the_same_digest(name: str, to: str, tmp_path: Path) -> None:
    archive.migrate(NEW / name, tmp_path / name, to=to, lossy=True)
    assert (tmp_path / name).read_bytes() != (NEW / name).read_bytes() or to == "2.13"
    assert model(tmp_path / name) == model(NEW / name)


@pytest.mark.parametrize(
    "name", ["nested.pt", "traced.pt", "consts.pt", "unicode.ptl", "frozen.ptl", "lowered.ptl"]
)
def test_releases_that_wrote_the_same_code_wrote_the_same_model(name: str) -> None:
    releases = ("2.0.0", "2.1.0", "2.4.1", "2.13.0")
    files = [RELEASES / f"torch-{release}" / name for release in releases]
    assert len({path.read_bytes() for path in files}) > 1
    assert len({model(path) for path in files}) == 1
    assert len({archive.digest(path, of="file").value for path in files}) > 1


def test_layouts_of_debug_info_do_not_count() -> None:
    names = ("nested.ptl", "nested-nostringtable.ptl", "nested-nodebug.ptl")
    assert len({model(NEW / name) for name in names}) == 1
    debug = [archive.digest(NEW / name, of="debug").parts for name in names[:2]]
    assert debug[0] == debug[1]
    assert archive.digest(NEW / names[2], of="debug").parts != debug[0]


def test_names_that_a_process_made_unique_do_not_count(tmp_path: Path) -> None:
    class Block(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Block(), Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(self.one(x))

    for name in ("one", "other"):
        made = torch.jit.trace(Model(), torch.ones(2))
        made.save(tmp_path / f"{name}.pt")
        made._save_for_lite_interpreter(str(tmp_path / f"{name}.ptl"), _save_mobile_debug_info=True)
    for ending in ("pt", "ptl"):
        files = [tmp_path / f"{name}.{ending}" for name in ("one", "other")]
        records = [set(archive.open(file).records) for file in files]
        assert records[0] != records[1]
        one, other = map(archive.digest, files)
        assert one.parts == other.parts


def test_the_order_of_constants_is_that_of_a_set_and_does_not_count(tmp_path: Path) -> None:
    torch.jit.script(torch.nn.Linear(3, 2)).save(tmp_path / "one.pt")
    records = archive.open(tmp_path / "one.pt").records
    record = _code_of(records, "linear")
    text = bytes(records[record].view())
    first, last = sorted(line for line in text.splitlines(keepends=True) if b" : Final[" in line)
    for name, lines in (("one", first + last), ("other", last + first)):
        code = text.replace(first, b"").replace(last, b"").replace(b"  def ", lines + b"  def ", 1)
        (tmp_path / f"{name}.pt").write_bytes(tampered(tmp_path / "one.pt", {record: code}))
        torch.jit.load(tmp_path / f"{name}.pt")
    assert model(tmp_path / "one.pt") == model(tmp_path / "other.pt")
    assert archive.diff(tmp_path / "one.pt", tmp_path / "other.pt").same_model


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("y0 = torch.neg(x)\n    return torch.add(y0, x)",
         "_7 = torch.neg(x)\n    return torch.add(_7, x)", True),
        ("return torch.neg(x)", "_0 = torch.neg(x)\n    return _0", True),
        ("y = torch.neg(x)\n    z = torch.neg(y)\n    return torch.add(y, z)",
         "y = torch.neg(x)\n    z = torch.neg(y)\n    return torch.add(z, y)", False),
        ("y = torch.neg(x)\n    return torch.add(y, x, alpha=2)",
         "alpha = torch.neg(x)\n    return torch.add(alpha, x, alpha=2)", True),
    ],
)  # fmt: skip
def test_names_of_variables_do_not_count(tmp_path: Path, old: str, new: str, same: bool) -> None:  # noqa: FBT001
    torch.jit.script(torch.nn.ReLU()).save(tmp_path / "one.pt")
    records = archive.open(tmp_path / "one.pt").records
    record = _code_of(records, "activation")
    head = bytes(records[record].view()).decode().partition("  def ")[0]
    for name, body in (("one", old), ("other", new)):
        code = f"{head}  def forward(self: {_own(record)},\n    x: Tensor) -> Tensor:\n    {body}\n"
        (tmp_path / f"{name}.pt").write_bytes(tampered(tmp_path / "one.pt", {record: code.encode()}))
        torch.jit.load(tmp_path / f"{name}.pt")
    assert (model(tmp_path / "one.pt") == model(tmp_path / "other.pt")) is same
    assert archive.diff(tmp_path / "one.pt", tmp_path / "other.pt").same_model is same


def test_arguments_of_the_model_count_and_those_of_its_modules_do_not(tmp_path: Path) -> None:
    model_of = torch.nn.Sequential(torch.nn.ReLU())
    torch.jit.script(model_of).save(tmp_path / "one.pt")
    records = archive.open(tmp_path / "one.pt").records
    for file, same in (("container", False), ("activation", True)):
        record = _code_of(records, file)
        code = bytes(records[record].view()).replace(b"input", b"given")
        other = tmp_path / f"{file}.pt"
        other.write_bytes(tampered(tmp_path / "one.pt", {record: code}))
        torch.jit.load(other)
        assert (model(tmp_path / "one.pt") == model(other)) is same
        assert archive.diff(tmp_path / "one.pt", other).same_model is same


def _code_of(records: Iterable[str], module: str) -> str:
    """The record of a module of PyTorch; its name is mangled if the process has scripted others before."""
    named = re.compile(rf".*/{module}(/___torch_mangle_\d+)?\.py")
    (record,) = filter(named.fullmatch, records)
    return record


def _own(record: str) -> str:
    return record.removeprefix("code/").removesuffix(".py").replace("/", ".") + ".ReLU"


def test_classes_that_change_places_are_another_model() -> None:
    class One(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 2

    def saved(*parts: torch.nn.Module) -> str:
        file = io.BytesIO()
        torch.jit.save(torch.jit.trace(torch.nn.Sequential(*parts), torch.ones(1)), file)
        return of(file.getvalue()).value

    Two.__name__ = Two.__qualname__ = One.__name__ = One.__qualname__ = "Same"
    assert saved(One(), Two()) == saved(One(), Two()) != saved(Two(), One())


BITS = {
    NEW / "nested.pt": ["data/0", "data/3"],
    NEW / "traced.ptl": ["data/1", "constants/0.storage"],
    FIXTURES / "exported/decoder.pt2": ["data/weights/weight_0", "data/constants/tensor_0"],
    FIXTURES / "kinds/checkpoint.pt": ["data/0", "data/4"],
    FIXTURES / "kinds/package.pt": [".data/1.storage"],
    FIXTURES / "kinds/package_python.pt": [".data/2.storage"],
}


@settings(deadline=None, max_examples=examples(24))
@given(st.data())
def test_each_bit_of_a_tensor_counts(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(BITS)))
    record = data.draw(st.sampled_from(BITS[path]))

    def flipped(stored: bytes) -> bytes:
        at, bit = data.draw(st.integers(0, len(stored) - 1)), data.draw(st.integers(0, 7))
        return stored[:at] + bytes([stored[at] ^ (1 << bit)]) + stored[at + 1 :]

    before, after = whole(path), of(tampered(path, {record: flipped}, renewed=False))
    assert after.value != before.value
    assert {name for name in before.parts if before.parts[name] != after.parts[name]} >= {
        f"tensor/{name}" for name in archive.open(path).tensors.storages[record]
    }


@settings(deadline=None, max_examples=examples(24))
@given(st.data())
def test_each_letter_of_code_counts(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([NEW / "nested.pt", NEW / "traced.ptl"]))
    with archive.open(path) as opened:
        name = data.draw(st.sampled_from(sorted(one for one in opened.records if one.endswith(".py"))))
        text = bytes(opened.records[name].view())
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from([letter for letter in b"x7(=" if letter != text[at]]))
    changed = text[:at] + bytes([other]) + text[at + 1 :]
    mangle = b"___torch_mangle_"
    in_a_mangle = mangle in text[max(0, at - 20) : at + 20]
    assert in_a_mangle or of(tampered(path, {name: changed}, renewed=False)).value != model(path)


CHANGES: dict[str, tuple[Path, str, Callable[[bytes], bytes]]] = {
    "attribute": (NEW / "nested.pt", "data.pkl", lambda data: data.replace(b"G\x3f\xe0", b"G\x3f\xe1", 1)),
    "operator of bytecode": (
        NEW / "nested.ptl",
        "bytecode.pkl",
        lambda data: data.replace(b"aten::mul", b"aten::div", 1),
    ),
    "operator of a graph": (
        FIXTURES / "exported/decoder.pt2",
        "models/model.json",
        lambda data: data.replace(b"aten.add.Tensor", b"aten.sub.Tensor", 1),
    ),
    "whether a weight is a parameter": (
        FIXTURES / "exported/decoder.pt2",
        "data/weights/model_weights_config.json",
        lambda data: data.replace(b'"is_param": true', b'"is_param": false', 1),
    ),
    "layout of a weight": (
        FIXTURES / "exported/decoder.pt2",
        "data/weights/model_weights_config.json",
        lambda data: data.replace(b'"layout": 7', b'"layout": 1', 1),
    ),
    "version of operators": (NEW / "nested.pt", "version", lambda _: b"2\n"),
    "key of a dict": (
        FIXTURES / "kinds/checkpoint.pt",
        "data.pkl",
        lambda data: data.replace(b"epoch", b"epoxy", 1),
    ),
    "another record": (NEW / "nested.pt", "payload", lambda _: b"what this is nobody knows"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_any_change_of_the_model_counts(name: str) -> None:
    path, record, change = CHANGES[name]
    before = b"" if record == "payload" else archive.open(path).records[record].view()
    changed = change(bytes(before))
    assert changed != before
    assert of(tampered(path, {record: changed}, renewed=False)).value != model(path)


IGNORED: dict[str, tuple[Path, str, bytes | None]] = {
    "serialization id": (NEW / "nested.pt", ".data/serialization_id", b"1" * 40),
    "extra file": (NEW / "nested.pt", "extra/notes.txt", b"mine"),
    "debug record": (NEW / "nested.pt", "code/__torch__/models.py.debug_pkl", None),
    "inputs of tracing": (NEW / "traced.pt", "traced_inputs.pkl", None),
    "sample inputs": (FIXTURES / "exported/decoder.pt2", "data/sample_inputs/model.pt", None),
}


@pytest.mark.parametrize("name", IGNORED)
def test_what_is_no_part_of_the_model_does_not_count(name: str) -> None:
    path, record, change = IGNORED[name]
    assert of(tampered(path, {record: change}, renewed=False)).value == model(path)


def file_of(value: object, protocol: int = 2) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, pickle_protocol=protocol)
    return file.getvalue()


def saved(value: object) -> archive.Digest:
    return of(file_of(value))


def test_storages_do_not_count_but_strides_and_sharing_do() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    plain = saved({"w": base})
    assert saved({"w": torch.cat([base, base])[3:]}).value == plain.value
    assert saved({"w": base.clone()}).value == plain.value
    assert saved({"w": base.t().contiguous().t()}).value != plain.value
    tied, copied = saved({"a": base, "b": base[1:]}), saved({"a": base, "b": base[1:].clone()})
    assert tied.parts["tensor/b"] == copied.parts["tensor/b"]
    assert set(tied.parts) - set(copied.parts) == {"alias/a"}
    half = torch.arange(24.0)
    assert saved([half[:12], half[12:]]).value == saved([half[:12].clone(), half[12:].clone()]).value


def test_shared_values_differ_from_copies() -> None:
    one = [1]
    assert saved([one, one]).value == saved([one, one]).value != saved([[1], [1]]).value


@pytest.mark.parametrize("protocols", [(2, 2), (2, 4)], ids=["one protocol", "two"])
@pytest.mark.parametrize("kind", [set, frozenset])
def test_the_order_of_a_set_does_not_count(kind: type, protocols: tuple[int, int]) -> None:
    """Numbers that collide in a set stand in the order in which they came; texts do in that of a process."""
    sets = kind([0, 8, 16]), kind([16, 8, 0])
    assert list(sets[0]) != list(sets[1])
    files = [file_of({"a": one, "b": b"xy"}, at) for one, at in zip(sets, protocols, strict=True)]
    assert of(files[0]).parts == of(files[1]).parts
    assert archive.diff(*files).same_model
    other = file_of({"a": kind([0, 8, 24]), "b": b"xy"})
    assert of(files[0]).parts != of(other).parts
    assert [(one.name, one.in_words) for one in archive.diff(files[0], other, ignore=["ids"]).changes] == [
        ("a.16", "gone, 16"),
        ("a.24", "added, 24"),
    ]


def test_every_scale_of_a_quantised_tensor_counts() -> None:
    def quantised(*scales: float) -> str:
        told = torch.tensor(scales), torch.zeros(2, dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tensor = torch.quantize_per_channel(torch.zeros(2, 2), *told, 0, torch.qint8)
        return saved({"w": tensor}).value

    assert quantised(0.5, 0.25) == quantised(0.5, 0.25) != quantised(0.5, 0.125)


def test_a_subclass_and_its_attributes_count() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    plain = saved({"w": parameter}).value
    parameter.note = "kept"
    assert saved({"w": parameter}).value != plain != saved({"w": torch.ones(2)}).value


def test_pieces_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "PIECE", 7)
    base = torch.arange(40.0).reshape(8, 5)
    turned, straight = saved({"w": base.t()}), saved({"w": base.t().contiguous()})
    assert turned.parts["tensor/w"] != straight.parts["tensor/w"]
    views = [memoryview(bytes(range(at, at + 5))) for at in range(0, 50, 5)]
    pieces = [bytes(piece) for piece in values._pieces(views)]
    assert b"".join(pieces) == bytes(range(50))
    assert {len(piece) for piece in pieces[:-1]} == {7}


def test_the_digest_follows_from_the_parts() -> None:
    found = archive.digest(NEW / "nested.pt")
    assert value_of("model", found.parts) == found.value
    assert list(found.parts) == sorted(found.parts)
    assert str(found) == f"model-{VERSIONS[found.of]}:{found.value}"


def test_a_module_has_the_digest_of_its_tensors_by_their_names_in_it() -> None:
    one, two = torch.arange(3.0), torch.arange(4)
    parts = saved({"encoder.0.w": one, "encoder.0.b": two, "head.w": one, "head.b": two, "w": one}).parts
    lines = "".join(f"{parts[f'tensor/head.{name}']}  {name}\n" for name in "bw")
    assert parts["module/head"] == hashlib.sha256(lines.encode()).hexdigest()
    assert parts["module/encoder.0"] == parts["module/head"] != parts["module/encoder"]
    assert [name for name in parts if name.startswith("module/")] == [
        "module/encoder",
        "module/encoder.0",
        "module/head",
    ]


def test_modules_tell_where_a_tensor_differs() -> None:
    made = {f"layers.{number}.w": torch.full((2,), float(number)) for number in range(3)}
    changed = made | {"layers.1.w": torch.zeros(2)}
    before, after = saved(made).parts, saved(changed).parts
    different = {name for name in before if before[name] != after[name]}
    assert different == {"module/layers", "module/layers.1", "tensor/layers.1.w", "values/data.pkl"}


def test_a_name_of_many_dots_costs_no_more_than_the_file_may() -> None:
    found = saved({"." * 5_000: torch.zeros(1)})
    assert sum(name.startswith("module/") for name in found.parts) == 64
    many = {f"{number}{'.x' * 4_000}": torch.zeros(1) for number in range(40)}
    file = io.BytesIO()
    torch.save(many, file)
    with pytest.raises(ArchiveError, match="memory is limited"):
        archive.digest(file.getvalue(), limits=archive.Limits(memory=1 << 20))


def test_the_digest_of_a_list_stays_while_its_version_does() -> None:
    told = json.loads((Path(__file__).parent / "digests.json").read_text())
    assert told == {name: str(archive.digest(FIXTURES / name)) for name in told}


def test_a_tuple_that_doubles_is_bounded() -> None:
    value: tuple[object, ...] = (1,)
    for _ in range(64):
        value = (value, value)
    file = io.BytesIO()
    torch.save(value, file)
    with pytest.raises(ArchiveError, match="memory is limited to 8,388,608"):
        archive.digest(file.getvalue(), limits=archive.Limits(memory=8 << 20))


def test_a_broken_tensor_has_no_digest() -> None:
    with pytest.raises(ArchiveError, match="data/0: no such storage"):
        of(tampered(NEW / "nested.pt", {"data/0": None}, renewed=False))


def test_a_companion_has_debug_info_and_no_model(tmp_path: Path) -> None:
    archive.split(ORACLES / "plain_stack.ptl", tmp_path / "left", tmp_path / "half")
    with pytest.raises(ArchiveError, match="a companion has no model"):
        archive.digest(tmp_path / "half")
    whole = archive.digest(ORACLES / "plain_stack.ptl", of="debug")
    half = archive.digest(tmp_path / "half", of="debug")
    assert half.parts == whole.parts
    assert archive.digest(tmp_path / "left", of="debug").value != whole.value


@pytest.mark.parametrize("name", [HANDLES, DELEGATES, OUTPUTS])
def test_maps_of_instructions_are_debug_info_for_digest_and_diff(name: str) -> None:
    whole = FIXTURES / "executorch" / "shop.etrecord"
    other = tampered(whole, {name: b'{"forward": {"7": 8}}' if name == HANDLES else b"{}"}, renewed=False)
    one, two = (archive.digest(file, of="debug").parts for file in (whole, other))
    assert {part for part, _ in one.items() ^ two.items()} == {f"record/{name}"}
    assert [(row.level, row.name) for row in archive.diff(whole, other).changes if row.name == name] == [
        (Level.DEBUG, name)
    ]
    assert archive.digest(whole).value == archive.digest(other).value


def test_debug_info_elsewhere_is_all_that_is_fetched() -> None:
    padded = tampered(NEW / "nested.ptl", {"constants/9": bytes(range(256)) * 16_000}, renewed=False)
    with served({"/m.ptl": padded}) as server:
        found = archive.digest(f"{server.url}/m.ptl", of="debug")
        assert server.sent < len(padded) // 2
    assert found.parts == archive.digest(NEW / "nested.ptl", of="debug").parts


def test_code_of_a_package_has_the_names_that_its_values_have() -> None:
    path = FIXTURES / "kinds/package.pt"
    assert {"code/__torch__.net.Net", "code/__torch__.net.Affine", "code/net.py"} <= set(
        archive.digest(path).parts
    )
    changed = tampered(path, {".data/python_version": b"3.99"}, renewed=False)
    assert of(changed).value == model(path)


@pytest.mark.parametrize(
    "code",
    [
        b"a." * 150_000,
        b'\\"' * 150_000,
        b"def f\n" * 50_000,
        b"class " + b"a." * 150_000 + b"b:\n",
        b"'" * 150_001,
    ],
    ids=["dots", "quotes", "one name", "a long name", "empty texts"],
)
def test_hostile_code_costs_time_in_proportion(code: bytes) -> None:
    with loops_below(500):
        of(tampered(NEW / "nested.pt", {"code/__torch__/models.py": code}, renewed=False))
