"""Node data for Model Explorer: what its own package takes, or, without it, the fields that it has."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from tests.support.commands import called, run, well
from tests.support.corpus import FIXTURES, ORACLES

FIELDS = {
    "GraphNodeData": {
        *("results", "name", "thresholds", "gradient", "hideInAggregatedStatsTable"),
        *("hideInChildrenStatsTable", "hideAggregatedStats", "showExpandedSummaryOnGroupNode"),
        "showLabelCountColumnsInChildrenStatsTable",
    },
    "NodeDataResult": {"value", "bgColor", "textColor"},
    "ThresholdItem": {"value", "bgColor", "textColor"},
    "GradientItem": {"stop", "bgColor", "textColor"},
}
"""The classes of ``node_data_builder`` in ai-edge-model-explorer 0.1.34."""
FORM = ("--format", "model-explorer")


def node_data(text: str | bytes) -> dict[str, Any]:
    """A document, held to the fields and types that Model Explorer has."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    data: dict[str, Any] = json.loads(text, parse_constant=refuse)
    assert data.keys() <= FIELDS["GraphNodeData"]
    rows = {
        "NodeDataResult": [*data["results"].values()],
        "ThresholdItem": data.get("thresholds", []),
        "GradientItem": data.get("gradient", []),
    }
    for kind, items in rows.items():
        for item in items:
            assert item.keys() <= FIELDS[kind]
            assert all(isinstance(item[key], int | float) for key in item.keys() & {"value", "stop"})
    assert [row["value"] for row in rows["ThresholdItem"]] == sorted(
        row["value"] for row in rows["ThresholdItem"]
    )
    if rows["GradientItem"]:
        assert {0, 1} <= {row["stop"] for row in rows["GradientItem"]}
    return data


def test_the_recorded_fields_are_those_of_the_package() -> None:
    builder = pytest.importorskip("model_explorer.node_data_builder")
    for name, recorded in FIELDS.items():
        assert {field.name for field in fields(getattr(builder, name))} == recorded


def test_the_package_takes_node_data() -> None:
    builder = pytest.importorskip("model_explorer.node_data_builder")
    data = node_data(well("sizes", ORACLES / "plain_stack.pt", "--by", "weights", *FORM))
    results = {name: builder.NodeDataResult(**row) for name, row in data.pop("results").items()}
    gradient = [builder.GradientItem(**row) for row in data.pop("gradient")]
    whole = builder.GraphNodeData(results=results, gradient=gradient, **data)
    again = json.loads(whole.to_json_string())
    assert again["results"] == {name: {"value": row.value} for name, row in results.items()}


def test_sizes_are_the_bytes_of_tensors() -> None:
    for file in (ORACLES / "plain_stack.pt", FIXTURES / "exported/choice.pt2"):
        data = node_data(well("sizes", file, "--by", "weights", *FORM))
        labels = json.loads(well("sizes", file, "--by", "weights", "--json"))["files"][0]["labels"]
        assert data["results"] == {
            f"weight {name}": {"value": row["stored"]}
            for name, row in labels.items()
            if not name.startswith("[")
        }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["sizes", ORACLES / "plain_stack.pt"], "--by weights"),
        (["sizes", ORACLES, "--by", "weights"], "one file"),
        (["sizes", ORACLES / "plain_stack.pt", "--by", "weights", "--depth", 1], "without --depth"),
        (["symbolicate", ORACLES / "plain_stack.ptl", 1445], "is for logs"),
        (["symbolicate", ORACLES / "plain_stack.ptl", ORACLES / "plain_stack.pt"], "one FILE"),
        (["profile", ORACLES / "plain_stack.pt", "--by", "line"], "without --base and --by"),
        (["run", ORACLES / "plain_stack.pt", "--watch", "plain.py:25"], "different ways"),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, list) else "",
)
def test_what_has_no_nodes_is_refused(words: list[object], why: str) -> None:
    done = called(*words, *FORM)
    assert (done.exit_code, done.stdout) == (2, "")
    assert why in done.stderr


def test_failures_are_counted_at_the_handle_that_failed() -> None:
    log = ORACLES / "lowered_shape.stripped.txt"
    done = run("symbolicate", ORACLES / "lowered_shape.ptl", "--log", log, *FORM)
    assert done.returncode == 0
    assert node_data(done.stdout)["results"] == {"1": {"value": 1}}
    source = run("symbolicate", ORACLES / "lowered_shape.ptl", 1).stdout
    assert b"AA0(AA)::forward.aten::add" in source
    assert b"AA0(AA)::forward.aten::add" in log.with_name("lowered_shape.txt").read_bytes()


def test_failures_whose_module_is_unknown_are_counted_at_all_nodes_of_the_line() -> None:
    log = ORACLES / "plain_stack.jit.stripped.txt"
    results = node_data(run("symbolicate", ORACLES / "plain_stack.pt", "--log", log, *FORM).stdout)["results"]
    assert results
    assert all(name.endswith(" models/plain.py:25") for name in results)
    assert {row["value"] for row in results.values()} == {1}


# --- with PyTorch


@pytest.fixture
def torch() -> Any:  # noqa: ANN401 (a module)
    return pytest.importorskip("torch", exc_type=ImportError)


def operations(*words: object) -> list[dict[str, Any]]:
    done = run("run", *words, "--json")
    return json.loads(done.stdout)["files"][0]["operations"]  # type: ignore[no-any-return]


@pytest.mark.usefixtures("torch")
def test_a_node_has_the_mean_of_all_runs_of_its_operation() -> None:
    file = ORACLES / "plain_stack.ptl"
    data = node_data(run("run", file, "--input", "2x4", *FORM).stdout)
    means: dict[str, list[float]] = {}
    for each in operations(file, "--input", "2x4"):
        means.setdefault(str(each["handle"]), []).append(each["results"][0]["mean"])
    assert max(map(len, means.values())) == 2
    assert {name: row["value"] for name, row in data["results"].items()} == pytest.approx(
        {name: sum(some) / len(some) for name, some in means.items()}
    )


def test_a_node_that_makes_nan_is_red(torch: Any, tmp_path: Any) -> None:  # noqa: ANN401 (of PyTorch)
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:  # noqa: ANN401 (a tensor)
            return torch.log(x) + 1

    path = tmp_path / "net.pt"
    torch.jit.trace(Net(), torch.ones(3), check_trace=False).save(path)
    torch.save(torch.tensor([1.0, -1.0, 0.0]), tmp_path / "x.pt")
    words = ("run", path, "--input", tmp_path / "x.pt", *FORM)
    means = node_data(run(*words).stdout)["results"]
    assert {row["bgColor"] for row in means.values()} == {"#d93025"}
    odd = node_data(run(*words, "--first-nan").stdout)
    assert [row["value"] for row in odd["results"].values()] == [2, 2]
    assert odd["thresholds"] == [{"value": 0, "bgColor": "#ffffff"}, {"value": 2, "bgColor": "#d93025"}]


def test_nodes_beyond_the_tolerance_are_red(torch: Any, tmp_path: Any) -> None:  # noqa: ANN401 (of PyTorch)
    def saved(name: str, scale: float) -> Any:  # noqa: ANN401 (a path)
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(0.5)
            module[2].bias.mul_(scale)
        torch.jit.trace(module, torch.ones(1, 4)).save(tmp_path / name)
        return tmp_path / name

    done = run("run", saved("mine.pt", 1.5), "--base", saved("base.pt", 1), "--input", "1x4", *FORM)
    assert done.returncode == 1
    results = node_data(done.stdout)["results"]
    assert {name.partition(" ")[0]: row for name, row in results.items()} == {
        "0": {"value": 0.0},
        "1": {"value": 0.0},
        "2": {"value": pytest.approx(0.25), "bgColor": "#d93025"},
    }


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", ["plain_stack.pt", "plain_stack.ptl"])
def test_times_are_those_of_the_profile(name: str) -> None:
    results = node_data(run("profile", ORACLES / name, "--input", "2x4", "--runs", 2, *FORM).stdout)[
        "results"
    ]
    assert len(results) == 7
    assert all(row["value"] > 0 for row in results.values())
    ran = operations(ORACLES / name, "--input", "2x4")
    assert (results.keys() == {str(each["handle"]) for each in ran}) == name.endswith("l")
