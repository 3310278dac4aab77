"""Makes ETDumps in ``fixtures/executorch``, and what ExecuTorch's Inspector says of them.

    python -m tools.make_etdumps FOLDER [NAME ...]

The programs are those of :mod:`tools.make_etrecords`, made again: the maps of instructions must be equal to
those of the frozen ETRecords, so that these are of the runs. Beside each ``NAME.etdp`` there is

* ``NAME.etdp.json``: for each block of the Inspector its events, with times in ns, and with handles and nodes
  where it takes the frozen ETRecord: ``record`` names it.

Runs whose values are noted are of programs with the same weights, so these are made together: where they are
compared, there are also

* ``NAME.etrecord``; ``faulty`` is compared with the program without the fault, that of ``device``;
* ``NAME.etdp.bin``: the values;
* ``NAME.etdp.pt``: the arguments of the call;
* ``NAME.etdp.gaps.json``: for each program of the record that the Inspector runs, the rows of its
  ``calculate_numeric_gap``: names of nodes, handles of the instruction, and each distance.

Times differ from run to run, so the fixtures are frozen and are not compared.
"""

from __future__ import annotations

import json
import sys
import warnings
import zipfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.make_etrecords import ETRecords
from tools.make_fixtures import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.make_exported import Arguments

RECORDS = FIXTURES / "executorch"
MAPS = ("debug_handle_map", "delegate_map", "instruction_id_to_num_outs_map")
DEBUG_BYTES = 1 << 12
"""Bytes for values that the runtime notes."""
DISTANCES = ("MSE", "L1", "SNR")
REFERENCES = ("exported_program", "edge_dialect_exported_program")
SEED = 0


class Sample(NamedTuple):
    """An ETDump.

    Attributes:
        program: the sample of ``make_etrecords``.
        calls: method and arguments of each run.
        is_inspected: whether the Inspector knows the ETRecord, as it does of one method without branches.
        has_values: whether results are noted.
    """

    program: str
    calls: list[tuple[str, Arguments]]
    is_inspected: bool = True
    has_values: bool = False


class Compared(NamedTuple):
    """An ETDump with values, and the ETRecord of the program that the Inspector compares them with.

    Attributes:
        model: makes the model that runs.
        arguments: of the call.
        record: the sample that has the ETRecord; None for itself.
        is_lowered: whether XNNPACK takes parts of it.
    """

    model: Callable[[], Any]
    arguments: Arguments
    record: str | None = None
    is_lowered: bool = False


class ETDumps:
    """Makes the samples.

    Args:
        folder: where they are written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = ETRecords(folder)
        self.jobs = self.records.jobs()

    def samples(self) -> dict[str, Sample]:
        """The samples by name."""
        torch = self.records.exported.torch
        plain = {name: self.arguments(name) for name in ("shop", "sized", "region", "xnnpack", "quantised")}
        ids, more, x = torch.tensor([1, 2]), torch.ones(4), torch.ones(2, 4)
        failing = self.jobs["region"]().calls[0][1]
        methods = [("forward", (ids,)), ("words", (ids, more)), ("later", (ids,)), ("forward", (ids,))]
        return {
            **{name: Sample(name, [("forward", call)] * 2) for name, call in plain.items()},
            "methods": Sample("methods", methods, is_inspected=False),
            "fork": Sample("fork", [("forward", (ids, x)), ("forward", (ids, -x))], is_inspected=False),
            "failed": Sample("region", [("forward", plain["region"]), ("forward", failing)]),
            "values": Sample("region", [("forward", plain["region"])], has_values=True),
        }

    def compared(self) -> dict[str, Compared]:
        """Those whose values are compared."""
        torch = self.records.exported.torch
        device, scores = import_module("device"), self.records.scores()
        ids = torch.tensor([1, 2, 0])
        arguments = torch.rand(3, 4), ids, ids + 3
        return {
            "device": Compared(device.Tower, arguments),
            "faulty": Compared(device.faulty, arguments, "device"),
            "delegated": Compared(scores.model, scores.arguments, is_lowered=True),
        }

    def lowered(self, sample: Compared) -> Any:  # noqa: ANN401 (ExecuTorch's own)
        """A model for ExecuTorch, with weights of one seed."""
        torch, exir = self.records.exported.torch, self.records.exir
        torch.manual_seed(SEED)
        exported = torch.export.export(sample.model().eval(), sample.arguments)
        if not sample.is_lowered:
            return exir.to_edge(exported, generate_etrecord=True).to_executorch()
        xnnpack = import_module("executorch.backends.xnnpack.partition.xnnpack_partitioner")
        partitioner = [xnnpack.XnnpackPartitioner()]
        edge = exir.to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=True)
        return edge.to_executorch()

    def make_compared(self, name: str, sample: Compared) -> None:
        """Write the files of a sample whose values are compared."""
        dump, record = self.folder / f"{name}.etdp", self.folder / f"{sample.record or name}.etrecord"
        buffer, inputs = (self.folder / f"{name}.etdp.{ending}" for ending in ("bin", "pt"))
        program = self.lowered(sample)
        if sample.record is None:
            made = program.get_etrecord()
            made.update_representative_inputs([sample.arguments])
            made.save(record)
        load = self.records.runtime._load_for_executorch_from_buffer
        module = load(program.buffer, enable_etdump=True, debug_buffer_size=DEBUG_BYTES)
        module.run_method("forward", sample.arguments)
        module.write_etdump_result_to_file(str(dump), str(buffer))
        self.records.exported.torch.save(list(sample.arguments), inputs)
        (self.folder / f"{name}.etdp.json").write_text(json.dumps(self.answers(dump, record)) + "\n", "utf-8")
        gaps = self.gaps(dump, record, buffer)
        (self.folder / f"{name}.etdp.gaps.json").write_text(json.dumps(gaps, indent=1) + "\n", "utf-8")

    def gaps(self, dump: Path, record: Path, buffer: Path) -> dict[str, list[dict[str, Any]]]:
        """What the Inspector says of values."""
        devtools = import_module("executorch.devtools.inspector")
        inspector = devtools.Inspector(
            etdump_path=str(dump), etrecord=str(record), debug_buffer_path=str(buffer)
        )
        made = {}
        for reference in REFERENCES:
            by_distance = {
                distance: inspector.calculate_numeric_gap(distance, reference_graph=reference)
                for distance in DISTANCES
            }
            made[reference] = [
                {
                    "nodes": row["aot_ops"],
                    "handles": [*row["runtime_debug_handle"]],
                    **{distance: by_distance[distance].iloc[at]["gap"][0] for distance in DISTANCES},
                }
                for at, row in by_distance["MSE"].iterrows()
            ]
        return made

    def arguments(self, program: str) -> Arguments:
        """The arguments of a call that does not fail."""
        arguments = self.jobs[program]().inspected
        assert arguments is not None
        return arguments

    def make(self, name: str, sample: Sample) -> None:
        """Write the files of a sample."""
        program = self.jobs[sample.program]().program
        made, record = self.folder / "made.etrecord", RECORDS / f"{sample.program}.etrecord"
        made.unlink(missing_ok=True)
        program.get_etrecord().save(made)
        with zipfile.ZipFile(made) as new, zipfile.ZipFile(record) as frozen:
            if any(json.loads(new.read(part)) != json.loads(frozen.read(part)) for part in MAPS):
                sys.exit(f"make_etdumps: {record} is of another program")
        made.unlink()
        options = {"debug_buffer_size": DEBUG_BYTES} if sample.has_values else {}
        load = self.records.runtime._load_for_executorch_from_buffer
        module = load(program.buffer, enable_etdump=True, **options)
        for method, arguments in sample.calls:
            with suppress(RuntimeError):  # of the run that is to fail
                module.run_method(method, arguments)
        dump = self.folder / f"{name}.etdp"
        buffer = self.folder / "made.values"
        module.write_etdump_result_to_file(str(dump), *([str(buffer)] if sample.has_values else []))
        buffer.unlink(missing_ok=True)
        answers = self.answers(dump, record if sample.is_inspected else None)
        (self.folder / f"{name}.etdp.json").write_text(json.dumps(answers) + "\n", "utf-8")

    def answers(self, dump: Path, record: Path | None) -> dict[str, Any]:
        """What the Inspector says."""
        devtools = import_module("executorch.devtools.inspector")
        inspector = devtools.Inspector(
            etdump_path=str(dump),
            etrecord=None if record is None else str(record),
            target_time_scale=devtools.TimeScale.NS,
        )
        return {
            "record": None if record is None else record.name,
            "blocks": [
                {"name": block.name, "events": [self.event(event) for event in block.events]}
                for block in inspector.event_blocks
            ],
        }

    def event(self, event: Any) -> dict[str, Any]:  # noqa: ANN401 (of the Inspector)
        """What the Inspector says of an event."""
        facts = {
            "name": event.name,
            "instruction": event._instruction_id,
            "delegate": event.delegate_debug_identifier,
            "ns": event.perf_data and event.perf_data.raw,
            "start": event.start_time,
            "backend": event.delegate_backend_name,
            "handles": event.debug_handles,
            "nodes": [*event.stack_traces],
        }
        return {key: value for key, value in facts.items() if value not in (None, [])}


def main() -> None:
    """Make the samples that the arguments name."""
    warnings.simplefilter("ignore")
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    made = ETDumps(Path(folder).resolve())
    for name, sample in made.samples().items():
        if not names or name in names:
            made.make(name, sample)
            sys.stdout.write(f"{name}\n")
    for name, compared in made.compared().items():
        if not names or name in names:
            made.make_compared(name, compared)
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
