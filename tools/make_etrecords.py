"""Makes ``fixtures/executorch``: ETRecords of ExecuTorch 1.5, what its runtime and its Inspector say of them.

    python -m tools.make_etrecords FOLDER [NAME ...]

Beside each ``NAME.etrecord`` there are, where the sample has them,

* ``NAME.log.txt``: the standard error of calls that fail, ended by Python's message of each;
* ``NAME.refused.txt``: the same of calls whose inputs or method the runtime refuses: each input with another
  dtype, rank and size, or one fewer or one more of them, and a method that there isn't;
* ``NAME.inspector.json``: what the Inspector says of an ETDump of a call that does not fail: for each
  instruction the operator that ran, the debug handles, and the traces and modules of their nodes.

The models are those of ``fixtures/exported/models``. The place of PyTorch stands in each record, so it must
be neutral, as for ``tools/make_exported.py``; that of ExecuTorch does not. Addresses, ids and weights differ
from run to run, so the fixtures are frozen and are not compared. Time stamps are those of a fixed time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
import zipfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.make_exported import Exported, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.make_exported import Arguments

MADE = time.struct_time((2026, 1, 2, 3, 4, 6, 4, 2, 0))
"""The time stamp of each record."""
EXECUTION = "Execute"
KERNEL = "native_call_"
"""What the Inspector puts before the name of an operator whose kernel ran."""
BACKEND = "DELEGATE_CALL"
REFUSED = ("shop", "methods", "sized")
"""The samples of which calls are refused."""
ABSENT = "absent"
"""No sample's method."""
INSTRUCTION = " failed at instruction "


class Lowered(NamedTuple):
    """A program for ExecuTorch, and the calls that are made of it.

    Attributes:
        program: of ``to_executorch``.
        calls: method and arguments of calls that fail.
        inspected: arguments of a call of ``forward`` that does not; None where the Inspector knows none.
    """

    program: Any
    calls: tuple[tuple[str, Arguments], ...]
    inspected: Arguments | None


class ETRecords:
    """Makes the samples.

    Args:
        folder: where they are written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exported = Exported(folder)
        self.samples = self.exported.samples()
        self.exir = import_module("executorch.exir")
        self.runtime = import_module("executorch.extension.pybindings.portable_lib")

    def jobs(self) -> dict[str, Callable[[], Lowered]]:
        """What makes each sample, by its name."""
        return {
            "shop": partial(self.plain, "shop"),
            "sized": self.sized,
            "methods": self.methods,
            "xnnpack": self.xnnpack,
            "mapped": self.mapped,
            "quantised": self.quantised,
            "region": self.region,
            "fork": self.fork,
        }

    def edge(self, sample: str) -> Any:  # noqa: ANN401 (an EdgeProgramManager)
        """A sample in ExecuTorch's edge dialect."""
        return self.exir.to_edge(self.exported.exported(self.samples[sample]), generate_etrecord=True)

    def flat(self, arguments: Arguments, keywords: dict[str, Any]) -> Arguments:
        """The tensors of a call, which is what the runtime takes."""
        return tuple(self.exported.torch.utils._pytree.tree_leaves((arguments, keywords)))

    def plain(self, name: str) -> Lowered:
        """One method whose operators all run in ExecuTorch's own kernels."""
        sample = self.samples[name]
        failing = self.flat(sample.failing, sample.keywords)
        inspected = self.flat(sample.arguments, sample.keywords)
        return Lowered(self.edge(name).to_executorch(), (("forward", failing),), inspected)

    def sized(self) -> Lowered:
        """Sizes that are computed, and instructions that no node stands for."""
        return Lowered(self.edge("sized").to_executorch(), (), self.samples["sized"].arguments)

    def methods(self) -> Lowered:
        """Three methods: two of them have the same operator at one instruction."""
        torch = self.exported.torch
        methods, shop = import_module("methods"), import_module("shop")
        ids, beyond, more = torch.tensor([1, 2]), torch.tensor([1, 9]), torch.ones(4)
        samples = {
            "forward": Sample(shop.Lookup, (ids,), (beyond,)),
            "words": Sample(methods.Words, (ids, more), (beyond, more)),
            "later": Sample(methods.Later, (ids,), (beyond,)),
        }
        programs = {method: self.exported.exported(sample) for method, sample in samples.items()}
        program = self.exir.to_edge(programs, generate_etrecord=True).to_executorch()
        calls = tuple((method, self.flat(sample.failing, {})) for method, sample in samples.items())
        return Lowered(program, calls, None)  # the Inspector knows records of one method alone

    def region(self) -> Lowered:
        """Two operators of one name that have one debug handle, on different lines."""
        torch = self.exported.torch
        ids, beyond = torch.tensor([1, 2]), torch.tensor([1, 9])
        self.samples["region"] = Sample(import_module("methods").Region, (ids, ids + 1), (ids, beyond))
        return self.plain("region")

    def fork(self) -> Lowered:
        """Instructions in branches, of which nothing is recorded, after the last one that has a record."""
        torch = self.exported.torch
        ids, beyond, x = torch.tensor([1, 2]), torch.tensor([1, 9]), torch.ones(2, 4)
        self.samples["fork"] = Sample(import_module("methods").Fork, (ids, x), (beyond, x))
        return self.plain("fork")._replace(inspected=None)  # the Inspector knows none of the branch either

    def scores(self) -> Sample:
        """A model of which a backend can take parts."""
        torch = self.exported.torch
        x, ids = torch.rand(3, 4), torch.tensor([0, 2])
        return Sample(import_module("methods").Scores, (x, ids), (x, ids + 7))

    def xnnpack(self) -> Lowered:
        """Parts lowered to XNNPACK, which doesn't record the nodes of its instructions."""
        partitioner = import_module("executorch.backends.xnnpack.partition.xnnpack_partitioner")
        sample = self.scores()
        edge = self.exir.to_edge_transform_and_lower(
            self.exported.exported(sample),
            partitioner=[partitioner.XnnpackPartitioner()],
            generate_etrecord=True,
        )
        return Lowered(edge.to_executorch(), (("forward", sample.failing),), sample.arguments)

    def quantised(self) -> Lowered:
        """A model that is quantised for XNNPACK, which takes most of it, and the nodes of quantisation."""
        torch = self.exported.torch
        quantizer = import_module("executorch.backends.xnnpack.quantizer.xnnpack_quantizer")
        pt2e = import_module("torchao.quantization.pt2e.quantize_pt2e")
        partitioner = import_module("executorch.backends.xnnpack.partition.xnnpack_partitioner")
        torch.manual_seed(0)
        model = import_module("quantised").Net().eval()
        arguments = torch.rand(2, 3, 4, 4), torch.tensor([1, 2])
        config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
        prepared = pt2e.prepare_pt2e(
            torch.export.export(model, arguments).module(), quantizer.XNNPACKQuantizer().set_global(config)
        )
        prepared(*arguments)
        edge = self.exir.to_edge_transform_and_lower(
            torch.export.export(pt2e.convert_pt2e(prepared), arguments),
            partitioner=[partitioner.XnnpackPartitioner()],
            generate_etrecord=True,
        )
        return Lowered(edge.to_executorch(), (), arguments)

    def mapped(self) -> Lowered:
        """Parts lowered to a backend that records the nodes of its instructions; no runtime has it."""
        demo = import_module("executorch.exir.backend.test.op_partitioner_demo")
        edge = self.exir.to_edge(self.exported.exported(self.scores()), generate_etrecord=True)
        return Lowered(edge.to_backend(demo.AddMulPartitionerDemo()).to_executorch(), (), None)

    def make(self, name: str, job: Callable[[], Lowered]) -> None:
        """Write the files of a sample."""
        lowered = job()
        record = self.folder / f"{name}.etrecord"
        lowered.program.get_etrecord().save(record)
        log = "".join(self.failure(lowered, *call) for call in lowered.calls)
        if log:
            (self.folder / f"{name}.log.txt").write_text(log, "utf-8")
        if name in REFUSED:
            refused = "".join(self.refused(lowered))
            (self.folder / f"{name}.refused.txt").write_text(refused, "utf-8")
        if lowered.inspected is not None:
            facts = self.inspected(lowered, record)
            (self.folder / f"{name}.inspector.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")

    def loaded(self, lowered: Lowered) -> Any:  # noqa: ANN401 (ExecuTorch's module)
        """The program in the runtime."""
        load = self.runtime._load_for_executorch_from_buffer
        return load(lowered.program.buffer, enable_etdump=True)

    def failure(self, lowered: Lowered, method: str, arguments: Arguments, *, is_sure: bool = True) -> str:
        """What is printed when a call fails; "" where it does not, and is not sure to."""
        module = self.loaded(lowered)
        sys.stderr.flush()
        saved = os.dup(2)
        with tempfile.TemporaryFile() as log:
            os.dup2(log.fileno(), 2)
            try:
                module.run_method(method, arguments)
            except RuntimeError as error:
                message = f"RuntimeError: {error}\n"
            else:
                if is_sure:
                    sys.exit("make_etrecords: a call that should fail does not")
                message = ""
            finally:
                os.dup2(saved, 2)
                os.close(saved)
            log.seek(0)
            lines = [line.decode() for line in log if not line.startswith(b"[cpuinfo")]  # of this machine
            return "".join([*lines, message]) if message else ""

    def refused(self, lowered: Lowered) -> Iterator[str]:
        """What is printed when the runtime refuses an input or a method; not where a call gets further."""
        torch = self.exported.torch
        inspected = (("forward", lowered.inspected),) if lowered.inspected is not None else ()
        for method, arguments in dict(inspected + lowered.calls).items():
            changes = [arguments[:-1], (*arguments, torch.ones(1))]
            for at, one in enumerate(arguments):
                other = torch.int32 if one.dtype.is_floating_point else torch.float32
                larger = (torch.cat([one] * 9, axis) for axis in range(one.dim()))
                made = (one.to(other), one.unsqueeze(0), *larger)
                changes += [(*arguments[:at], change, *arguments[at + 1 :]) for change in made]
            texts = (self.failure(lowered, method, changed, is_sure=False) for changed in changes)
            yield from (text for text in texts if text and INSTRUCTION not in text)
        yield self.failure(lowered, ABSENT, ())

    def inspected(self, lowered: Lowered, record: Path) -> list[dict[str, Any]]:
        """What the Inspector says of each instruction that ran."""
        module = self.loaded(lowered)
        module.run_method("forward", lowered.inspected)
        with tempfile.NamedTemporaryFile() as dump:
            module.write_etdump_result_to_file(dump.name)
            inspector = import_module("executorch.devtools").Inspector(
                etdump_path=dump.name, etrecord=str(record)
            )
        events = [
            event for block in inspector.event_blocks if block.name == EXECUTION for event in block.events
        ]
        return [
            {
                "instruction": event._instruction_id,
                "operator": event.name.removeprefix(KERNEL),
                "handles": event.debug_handles,
                "traces": event.stack_traces,
                "modules": event.module_hierarchy,
            }
            for event in events
            if event.name.startswith(KERNEL) or event.name == BACKEND
        ]


def main() -> None:
    """Make the samples that the arguments name."""
    warnings.simplefilter("ignore")
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    made = ETRecords(Path(folder).resolve())
    zipfile.time.localtime = lambda _=None: MADE  # type: ignore[attr-defined]
    for name, job in made.jobs().items():
        if not names or name in names:
            made.make(name, job)
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
