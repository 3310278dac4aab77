"""Makes the ``.pte`` files of ``fixtures/executorch``, and what ExecuTorch's own reader says of each.

    python -m tools.make_executorch_programs FOLDER [NAME ...]

The programs are those of ``tools/make_etrecords.py``, and more. ``mutated`` has a buffer with a first value,
``framed`` the frames of each instruction; ``mlp``, ``cnn`` and ``attention`` are small networks, ``twice``
has two methods with the same weights, ``int8`` is quantised and delegated. ``NAME.pte.json`` is what
``deserialize_pte_binary`` reads: methods with their values, instructions, operators, backends and planned
memory; the bytes of constants and of blobs as their sha256. ``NAME.pte.sizes.json`` is what ExecuTorch's
``size_analysis_tool`` counts of each method of the networks: tensors with their sha256, and blobs.
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


def networks(records: ETRecords) -> dict[str, Callable[[], Any]]:
    """What makes each network in ExecuTorch's edge dialect, by its name."""
    torch, lower = records.exported.torch, records.exir.to_edge_transform_and_lower
    nn = torch.nn

    def made(model: Any, *sizes: int) -> Any:  # noqa: ANN401 (a module, a program)
        return torch.export.export(model.eval(), (torch.rand(sizes),))

    def mlp() -> Any:  # noqa: ANN401 (a module)
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))

    def cnn() -> Any:  # noqa: ANN401 (a module)
        torch.manual_seed(0)
        layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        return nn.Sequential(*layers, nn.Linear(16, 4))

    def attention() -> Any:  # noqa: ANN401 (a module)
        torch.manual_seed(0)
        return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def twice() -> Any:  # noqa: ANN401 (programs)
        whole = mlp()
        return lower({"forward": made(whole, 2, 4), "head": made(whole[2], 2, 8)})

    def int8() -> Any:  # noqa: ANN401 (programs)
        quantizer = import_module("executorch.backends.xnnpack.quantizer.xnnpack_quantizer")
        pt2e = import_module("torchao.quantization.pt2e.quantize_pt2e")
        partitioner = import_module("executorch.backends.xnnpack.partition.xnnpack_partitioner")
        config = quantizer.get_symmetric_quantization_config()
        prepared = pt2e.prepare_pt2e(
            made(mlp(), 2, 4).module(), quantizer.XNNPACKQuantizer().set_global(config)
        )
        prepared(torch.rand(2, 4))
        program = torch.export.export(pt2e.convert_pt2e(prepared), (torch.rand(2, 4),))
        return lower(program, partitioner=[partitioner.XnnpackPartitioner()])

    return {
        "mlp": lambda: lower(made(mlp(), 2, 4)),
        "cnn": lambda: lower(made(cnn(), 1, 3, 6, 6)),
        "attention": lambda: lower(made(attention(), 1, 3, 8)),
        "twice": twice,
        "int8": int8,
    }


def sizes(edge: Any) -> dict[str, Any]:  # noqa: ANN401 (programs)
    """What ``size_analysis_tool`` counts of each method."""
    tool = import_module("executorch.devtools.size_analysis_tool.size_analysis_tool")
    counted = {}
    for name in sorted(edge.methods):
        program = edge.exported_program(name)
        found = tool.generate_model_size_information(program)
        held = program.graph_signature.inputs_to_parameters | program.graph_signature.inputs_to_buffers
        counted[name] = {
            "tensors": [
                [one["num_bytes"], digest(program.state_dict[held[one["name"]]].detach().numpy().tobytes())]
                for one in found["tensor_data"]
            ],
            "blobs": [one["num_bytes"] for one in found["delegate_blob_data"]],
        }
    return counted


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
        records = ETRecords(Path(aside))
        for name, job in (programs(records) | networks(records)).items():
            if not names or name in names:
                made = job()
                data = made if isinstance(made, bytes) else bytes(made.to_executorch().buffer)
                Path(folder, f"{name}.pte").write_bytes(data)
                Path(folder, f"{name}.pte.json").write_text(json.dumps(read(data), indent=1) + "\n", "utf-8")
                if not isinstance(made, bytes):
                    text = json.dumps(sizes(made)) + "\n"
                    Path(folder, f"{name}.pte.sizes.json").write_text(text, "utf-8")
                sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
