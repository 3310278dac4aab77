"""Makes the ``.pte`` files of ``fixtures/executorch``, and what ExecuTorch's own reader says of each.

    python -m tools.make_executorch_programs FOLDER [NAME ...]

The programs are those of ``tools/make_etrecords.py``, and two more: ``mutated`` has a buffer with a first
value, ``framed`` the frames of each instruction. ``NAME.pte.json`` is what ``deserialize_pte_binary`` reads:
methods with their values, instructions, operators, backends and planned memory; the bytes of constants and of
blobs as their sha256.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import warnings
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.make_etrecords import ETRecords

if TYPE_CHECKING:
    from collections.abc import Callable


def programs(records: ETRecords) -> dict[str, Callable[[], bytes]]:
    """What makes each program, by its name."""
    jobs: dict[str, Callable[[], bytes]] = {
        name: partial(_lowered, job) for name, job in records.jobs().items()
    }
    return jobs | {"mutated": partial(_mutated, records), "framed": partial(_framed, records)}


def _lowered(job: Callable[[], Any]) -> bytes:
    return bytes(job().program.buffer)


def _mutated(records: ETRecords) -> bytes:
    torch = records.exported.torch

    class Counter(torch.nn.Module):  # type: ignore[name-defined]  # PyTorch is imported by name
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.arange(3.0))
            self.register_buffer("scale", torch.full((3,), 0.5))

        def forward(self, x: Any) -> Any:  # noqa: ANN401 (a tensor)
            self.total.add_(x)
            return self.total * self.scale

    exported = torch.export.export(Counter(), (torch.ones(3),))
    passes = import_module("executorch.exir.passes.init_mutable_pass")
    config = records.exir.ExecutorchBackendConfig(
        passes=[passes.InitializedMutableBufferPass(["total"])], emit_mutable_buffer_names=True
    )
    return bytes(records.exir.to_edge(exported).to_executorch(config).buffer)


def _framed(records: ETRecords) -> bytes:
    config = records.exir.ExecutorchBackendConfig(emit_stacktrace=True)
    return bytes(records.edge("shop").to_executorch(config).buffer)


def read(data: bytes) -> dict[str, Any]:
    """What ExecuTorch's reader says of a program."""
    reader = import_module("executorch.exir._serialize._program")
    file = reader.deserialize_pte_binary(data)
    program, mutable = file.program, file.mutable_data or []

    def elements(value: Any) -> str | None:  # noqa: ANN401 (ExecuTorch's tensor)
        if not value.data_buffer_idx:
            return None
        buffers = program.constant_buffer if value.allocation_info is None else mutable
        return digest(bytes(buffers[value.data_buffer_idx].storage))

    def tensor(value: Any) -> dict[str, Any]:  # noqa: ANN401 (ExecuTorch's tensor)
        room = value.allocation_info
        place = room and [room.memory_id, room.memory_offset_low + (room.memory_offset_high << 32)]
        facts = value.scalar_type.name, value.sizes, list(value.dim_order), value.shape_dynamism.name
        name = value.extra_tensor_info and value.extra_tensor_info.fully_qualified_name
        return dict(
            zip(("type", "sizes", "order", "dynamism"), facts, strict=True),
            planned=place,
            name=name or "",
            elements=elements(value),
        )

    def instruction(one: Any) -> list[Any]:  # noqa: ANN401 (ExecuTorch's)
        return [type(one.instr_args).__name__, *vars(one.instr_args).values()]

    def method(plan: Any) -> dict[str, Any]:  # noqa: ANN401 (ExecuTorch's)
        values = [one.val for one in plan.values]
        return {
            "name": plan.name,
            "kinds": [type(value).__name__ for value in values],
            "tensors": {
                number: tensor(value)
                for number, value in enumerate(values)
                if type(value).__name__ == "Tensor"
            },
            "inputs": plan.inputs,
            "outputs": plan.outputs,
            "operators": [[one.name, one.overload] for one in plan.operators],
            "instructions": [instruction(one) for one in plan.chains[0].instructions],
            "backends": [
                [one.id, digest(bytes(program.backend_delegate_data[one.processed.index].data))]
                for one in plan.delegates
            ],
            "planned": plan.non_const_buffer_sizes,
        }

    named = file.named_data
    return {
        "methods": [method(plan) for plan in program.execution_plan],
        "named": {
            key: digest(bytes(named.buffers[entry.buffer_index])) for key, entry in named.pte_data.items()
        }
        if named
        else {},
    }


def digest(data: bytes) -> str:
    """The sha256 of bytes, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    """Make the programs that the arguments name."""
    warnings.simplefilter("ignore")
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as aside:
        for name, job in programs(ETRecords(Path(aside))).items():
            if not names or name in names:
                data = job()
                Path(folder, f"{name}.pte").write_bytes(data)
                Path(folder, f"{name}.pte.json").write_text(json.dumps(read(data), indent=1) + "\n", "utf-8")
                sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
