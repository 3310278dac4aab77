"""Whose a source file is, by its name, for each use that asks."""

from __future__ import annotations

import pytest

from archive.base.source_files import is_no_models, is_pytorchs
from archive.debuginfo.source_lines import SourceLine, model_line
from archive.formats.exported.traces import parse_trace
from archive.formats.record_kinds import RecordKind
from archive.privacy.leaks.sources import sources

PYTORCHS = [
    "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py",
    "/usr/lib/python3/dist-packages/torch/nn/functional.py",
    "/opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py",
    "/home/ann/.pyenv/versions/3.11.4/lib/python3.11/site-packages/torch/optim/adam.py",
    r"C:\Python311\Lib\site-packages\torch\nn\modules\linear.py",
    r"c:\users\ann\Lib\Site-Packages\torch\export\_trace.py",
    "/x/site-packages/torch-2.1.0-py3.11-linux-x86_64.egg/torch/utils/checkpoint.py",
    "/home/ann/pytorch/torch/nn/modules/linear.py",
    "/opt/torch/torch/jit/__init__.py",
    "/opt/pytorch/torch/_tensor.py",
    "torch/nn/functional.py",
    "torch/functional.py",
    "code/torch/jit.py",
]
MODELS = [
    *("/home/ann/torch/model.py", "/home/ann/torch/_model.py", "/home/ann/torch/nn.py", "torch/model.py"),
    *("/home/ann/torch/nn_model.py", "/home/ann/torch/nn/model.py", "/home/ann/torch/jit_model.py"),
    *("/home/ann/torch/aorta.py", "/home/ann/torch/functional_net.py", "/home/ann/torch/models/net.py"),
    *("/home/ann/torch/utils/checkpoint.py", "/home/ann/mytorch/nn/modules/linear.py", "model.py", "?"),
    "/x/site-packages/torchvision/models/resnet.py",
    "/x/site-packages/torch_geometric/nn/conv.py",
    "/x/site-packages/mymodel/torch/net.py",
    r"C:\Users\ann\torch\net.py",
]
TYPED = ["<stdin>", "<console>", "<ipython-input-3-a1b2>", "<python-input-3>"]
GENERATED = ["<eval_with_key>.3", "<string>", "<torch_package_0>.model.py", "<frozen runpy>"]
NAMES = [
    *((name, True, True) for name in PYTORCHS),
    *((name, False, False) for name in MODELS + TYPED),
    *((name, False, True) for name in GENERATED),
]
MODEL = "/srv/models/net.py"


@pytest.mark.parametrize(("name", "pytorchs", "no_models"), NAMES)
def test_each_use_tells_whose_a_file_is(name: str, *, pytorchs: bool, no_models: bool) -> None:
    assert (is_pytorchs(name), is_no_models(name)) == (pytorchs, no_models)
    # operations: the innermost line of the model
    lines = [SourceLine(name, 1, ""), SourceLine(MODEL, 2, "")]
    assert model_line(lines) == lines[pytorchs]
    # nodes: the innermost frame of the model
    text = f'  File "{MODEL}", line 2, in run\n    a\n  File "{name}", line 1, in forward\n    return b + 1\n'
    trace = parse_trace(text)
    assert trace is not None
    assert trace.of_model.file == (MODEL if no_models else name)
    # leaks: a line of source that a traceback quotes
    found = [detection.text for detection in sources(RecordKind.PROGRAM, text.encode())]
    assert (b"return b + 1" in found) is not pytorchs
