"""Three models that fail in many ways, made by PyTorch, and what its lite interpreter prints of each failure.

    python -m tests.failures.models.three_models FOLDER NAME

Each is made in a process of its own, so that the debug handles of each start at 0: a number alone does not
tell the model. FOLDER gets ``NAME.ptl``, ``NAME.unique.ptl`` and ``NAME.keep.ptl`` (without debug info, with
unique handles and with the original ones), ``NAME.ptdbg`` (the companion of the former) and ``NAME.json``:
for each failure PyTorch's text of all three.
"""

import json
import linecache
import random
import sys
import types
from pathlib import Path

import torch
import torch.jit.mobile

import archive

NAMES = {"Ranker": 67, "Encoder": 67, "Detector": 66}
"""The models, and how many failures each has."""
FAILING = (
    "x = x.view(7)",
    "x = x.reshape(2, 5)",
    "x = torch.matmul(x, torch.ones(5, 5))",
    "x = torch.mm(x, torch.ones(7, 2))",
    "x = torch.bmm(x, x)",
    "x = torch.cat([x, torch.ones(3, 4, 4)], 0)",
    "x = torch.stack([x, torch.ones(2)])",
    "x = x + torch.ones(5)",
    "x = x * torch.ones(9)",
    "x = torch.addmm(torch.ones(9), x, torch.ones(3, 9))",
    "x = torch.conv1d(x, torch.ones(2, 7, 1))",
    "x = torch.layer_norm(x, [9])",
    "x = torch.index_select(x, 0, torch.ones(1, dtype=torch.long) * 99)",
    "x = torch.embedding(x, torch.ones(1, dtype=torch.long) * 99)",
    "x = x.transpose(5, 1)",
    "x = x.permute(0, 1, 2)",
    "x = x.expand(3, 9)",
    "x = torch.softmax(x, 7)",
    "x = x.narrow(0, 5, 9)",
    "x = torch.gather(x, 4, torch.ones(1, dtype=torch.long))",
    "x = x.squeeze(6)",
)
WORKING = ("x = x + 1", "x = torch.relu(x)", "x = x * 0.5", "x = torch.tanh(x)")


def source(name: str) -> str:
    """A model's source: argument ``at`` chooses the statement that fails."""
    chance = random.Random(name)  # noqa: S311 (no secret)
    lines = ["import torch", f"class {name}(torch.nn.Module):"]
    lines += ["    def forward(self, x: torch.Tensor, at: int) -> torch.Tensor:"]
    for at in range(NAMES[name]):
        lines += [f"        {one}" for one in chance.choices(WORKING, k=chance.randrange(3))]
        lines += [f"        if at == {at}:", f"            {chance.choice(FAILING)}"]
    return "\n".join([*lines, "        return x", ""])


def compiled(name: str) -> type[torch.nn.Module]:
    """A model's class, compiled under a relative name, so that no path gets into the archive."""
    file, code = f"models/{name.lower()}.py", source(name)
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    module = types.ModuleType(name.lower())
    module.__file__ = file
    sys.modules[module.__name__] = module
    exec(compile(code, file, "exec"), vars(module))  # noqa: S102 (our own source)
    found: type[torch.nn.Module] = getattr(module, name)
    return found


def main(folder: Path, name: str) -> None:
    """Write a model, what is left of it in both forms, and its failures."""
    made = compiled(name)()
    whole, unique, keep = (folder / f"{name}{form}.ptl" for form in ("", ".unique", ".keep"))
    torch.jit.script(made)._save_for_lite_interpreter(str(whole), _save_mobile_debug_info=True)
    archive.split(whole, keep, folder / f"{name}.keep.ptdbg", handles="keep")
    archive.split(whole, unique, folder / f"{name}.ptdbg")
    models = [torch.jit.mobile._load_for_lite_interpreter(str(path)) for path in (unique, keep, whole)]
    failures = [[said(model, at) for model in models] for at in range(NAMES[name])]
    (folder / f"{name}.json").write_text(json.dumps(failures))


def said(model: torch.jit.ScriptModule, at: int) -> str:
    """The text of a failure."""
    try:
        model(torch.ones(2, 4), at)
    except (RuntimeError, IndexError) as error:
        return str(error)
    raise AssertionError(at)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
