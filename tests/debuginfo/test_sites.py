"""Names of classes, as TorchScript has them."""

from __future__ import annotations

import pytest

from archive.debuginfo.sites import torchscript_name

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import lower
from archive.backend.exported.program import exported
from archive.backend.graph.inlining import unmangled

pytestmark = pytest.mark.torch


def class_in(module: str) -> type[torch.nn.Module]:
    class Local(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.tanh()

    Local.__module__ = module
    return Local


class Outer:
    class Inner(class_in(__name__)):  # type: ignore[misc]
        pass


CLASSES = {"local": class_in("models.plain"), "main": class_in("__main__"), "nested": Outer.Inner}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_name_that_pytorch_gives_it(name: str) -> None:
    scripted = torch.jit.script(CLASSES[name]())._c._type().annotation_str
    assert torchscript_name(CLASSES[name]) == unmangled(scripted)


@pytest.mark.parametrize("name", CLASSES)
def test_a_module_with_effects_is_lowered_under_that_name(name: str) -> None:
    lowered = lower(CLASSES[name](), "aten", example_inputs=(torch.ones(2),), effects=True)
    assert lowered._c._type().annotation_str.endswith(f".aten.{torchscript_name(CLASSES[name])}")


@pytest.mark.parametrize("name", ["local", "main"])
def test_so_is_an_exported_program_unless_its_class_is_in_another(name: str) -> None:
    program = torch.export.export(CLASSES[name](), (torch.ones(2),))
    assert exported(program)[0].type_name == torchscript_name(CLASSES[name])
