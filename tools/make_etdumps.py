"""Makes ETDumps in ``fixtures/executorch``, and what ExecuTorch's Inspector says of them.

    python -m tools.make_etdumps FOLDER [NAME ...]

The programs are those of :mod:`tools.make_etrecords`, made again: the maps of instructions must be equal to
those of the frozen ETRecords, so that these are of the runs. Beside each ``NAME.etdp`` there is

* ``NAME.etdp.json``: for each block of the Inspector its events, with times in ns, and with handles and nodes
  where it takes the frozen ETRecord: ``record`` names it.

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
    from tools.make_exported import Arguments

RECORDS = FIXTURES / "executorch"
MAPS = ("debug_handle_map", "delegate_map", "instruction_id_to_num_outs_map")
DEBUG_BYTES = 1 << 16
"""Bytes for values that the runtime notes."""


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


if __name__ == "__main__":
    main()
