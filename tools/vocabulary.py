"""Make the vocabulary of ``archive.privacy.review`` from PyTorch: ``words.xz`` in that room.

    python -m tools.vocabulary             writes it
    python -m tools.vocabulary --check     says which words differ; status 1 then

Words are those of operators and their schemas, of ``torch.nn``, of what PyTorch's modules and functions are
made of, of the schema of exported programs, of TorchScript's generated code, of Python, and of file formats.
Names of people and companies are left out, unless they are words of code.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import collections
import dataclasses
import enum
import importlib
import keyword
import math
import operator
import re
import sys
import typing
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch._higher_order_ops
from torch._export.serde import schema as export_schema

from archive.formats import record_kinds
from archive.formats.exported.schema import CLASSES
from archive.privacy.review.code import texts_of_code
from archive.privacy.review.vocabulary import FILE, packed, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = Path(torch.__file__).parent
HEADERS = HOME / "include"
COMPILED = """
_inductor/codegen/aoti_runtime/*.cpp include/torch/csrc/inductor/aoti_runtime/*.h
_inductor/codegen/cpp_wrapper_cpu.py _inductor/codegen/wrapper.py _inductor/codegen/cpp.py
_inductor/codegen/cpp_utils.py _inductor/cpp_builder.py _inductor/package/package.py
"""
"""What writes the C++ code of compiled models."""
DTYPES = {str(one).removeprefix("torch.") for one in vars(torch).values() if isinstance(one, torch.dtype)}
FLAG = re.compile(r"[A-Za-z_][\w+=-]{3,40}(?: -m\w+)*")
"""An option of a compiler, and what else is one word."""
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
SYMBOL = re.compile(r"_\((?:prim|onnx|attr|aten), *(\w+)")
SHIM = re.compile(r"\b(?:aoti_torch_|AOTI)\w+")
ONNX_OPERATOR, ONNX_ATTRIBUTE = re.compile(r'\.op\(\s*"(\w+)"'), re.compile(r"\b(\w+)_[ifsgtz]=")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SHORT_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,32}")
NAMESPACES = """
aten prim prims higher_order quantized profiler inductor rngprims c10d_functional _c10d_functional
quantized_decomposed
"""
MODULES = """
torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.linalg torch.fft torch.special
torch.jit torch.export torch.fx torch.optim torch.utils.data torch.ao.nn.quantized torch.amp torch.autograd
torch.distributions torch.sparse torch.nested torch.cuda torch.backends torch.overrides torch.nn.attention
"""
CLASSES_OF_TORCH = (
    torch.Tensor, torch.UntypedStorage, torch.TypedStorage, torch.nn.Module, torch.Generator, torch.device,
    torch.dtype, torch.Size,
)  # fmt: skip
OF_PYTHON = (operator, math, collections, typing, str, list, dict, int, float, complex, tuple, set, bytes)
SOURCES = """
nn/**/*.py ao/nn/**/*.py _export/serde/*.py export/*.py jit/_*.py optim/*.py utils/_pytree.py
utils/bundled_inputs.py utils/checkpoint.py functional.py _tensor.py masked/maskedtensor/core.py
_jit_internal.py fx/*.py serialization.py _utils.py cuda/amp/*.py
"""
"""Source files whose names, arguments and attributes are words."""
WITH_MESSAGES = {"functional.py", "activation.py", "transformer.py"}
"""Source files with messages that generated code has, too."""
WITH_LITERALS = "nn/"
"""Source files whose short texts are literals: ``mean``, ``zeros``."""
GENERATED = """
__torch__ ___torch_mangle_ annotate unchecked_cast uninitialized ops prim SELF forward CONSTANTS self torch
inf nan fork wait interface NamedTuple TorchScript _is_full_backward_hook unknown lambda genexpr listcomp
dictcomp module string stdin is_scripting __parameters__ __buffers__ __annotations__ _ INSTANCE_NAME_UNKNOWN
op_version_set __backend __create_backend __handles __method_compile_spec __processed_module __is_available
__backends__ __backend_debug_info __create_backend_debug_info __loweredModule__ BackendDebugInfo
LoweredModule LoweredWrapper backendutils execute typed_inputs function_debug_handles delegated_backends
debug_handle Interpreter_PropagateUnbackedSymInts Interpreter_DynamoGraphTransformer Interpreter_Interpreter
PropagateUnbackedSymInts DynamoGraphTransformer source_fn_stack _operator true_graph false_graph true_fn
false_fn body_graph CondOp number Future RRef Generator Device NoneType Any Optional Union Tuple List Dict
tensor torch_mangle function_name unchecked_unwrap_optional DEPRECATED
"""
"""Words of generated code."""
BYTECODE = """
OP OPN LOAD STORE LOADC MOVE STOREN DROP DROPR GET_ATTR SET_ATTR CALL INTERFACE_CALL JMP JF LOOP RET WAIT
FORK LIST_CONSTRUCT DICT_CONSTRUCT TUPLE_CONSTRUCT NAMED_TUPLE_CONSTRUCT CREATE_OBJECT ISINSTANCE
TUPLE_SLICE RAISE_EXCEPTION UNCHECKED_CAST TO_LIST NUM_TO_TENSOR TUPLE_INDEX LIST_UNPACK TUPLE_UNPACK
DICT_INDEX FORMAT WARN ENTER EXIT AWAITABLE TYPECHECK FAIL_GUARD PROFILE_OP TAIL_CALL GUARD __IS__
__IS_NOT__ __NOT__ __ISNOT__ DIM __DIM__ DTYPE DEVICE IS_CUDA UN_INITIALIZED __CONTAINS__ OP_AT EQ
instructions operators constants types register_size arguments returns name type default_value
function_params debug_handles FORMAT_WITH_STRING_TABLE
"""
FORMATS = """
data pkl constants version byteorder little big serialization_id bytecode debug_pkl debug_handles mobile
callstack_debug_map mobile_debug_handles model json weights config archive archive_format archive_version
format_version storage_alignment storages tensors cpu cuda xpu mps meta serialized_exported_program
serialized_state_dict serialized_constants serialized_example_inputs sample_inputs weights_config
constants_config model_weights_config model_constants_config use_pickle path_name tensor_meta is_param
archive_metadata aotinductor wrapper_metadata AOTI_DEVICE_KEY wrapper kernel_metadata
edge_dialect_exported_program exported_program EDGE ATEN dialects edge exir forward_constants
forward_example_inputs forward_state_dict exported_program_constants exported_program_example_inputs
exported_program_state_dict ts_code extra executorch param_groups optimizer epoch global_step state_dict
lr_schedulers producer traced_inputs attributes F32 F16 BF16 I64 I32 I16 I8 U8 BOOL F64 F8_E4M3 F8_E5M2
dtype shape data_offsets __metadata__ format pt weight_map metadata total_size ONNX onnx pytorch ai
main_graph graph node initializer ir_version opset_import placeholder get_attr call_function call_module
call_method output L G dynamo file line in File fb_signature py cpp txt pt2 ptl pth bin so tensors PK
general architecture quantization_version alignment GGUF rb cpython storage torch_function code models site
packages dist python lib ios_base locale type_info char_traits regex_traits post_grad_nodes pre_grad_nodes
stack_traces builtin_function_or_method method_descriptor null TRAINING L__self__ EVAL
"""
LITERALS = """
cpu cuda cuda:0 meta strided little big mean sum none pt pt2 float int tensor default relu gelu tanh sigmoid
silu zeros reflect replicate circular constant same valid bilinear nearest privateuseone
torch.jit._pickle.build_intlist bicubic linear trilinear area trunc floor storage cpython linux x86_64
aarch64 darwin AVX2 AVX512 torch_cpu gomp shared O0 O1 O2 O3
latin1 BOOL U8 I8 I16 U16 I32 U32 I64 U64 F8_E4M3 F8_E5M2 F16 BF16 F32 F64 C64 MT19937 PCG64
"""
SENTENCES = "Exception: Backend is not available.", "Backend is not available.", "// Compile cmd"
"""Of the code that PyTorch makes for backends and compiled models."""
PICKLED = """
argparse array builtins collections datetime decimal enum fractions functools ipaddress numpy.dtypes pathlib
random types uuid zoneinfo
"""
"""Modules of classes that pickles have, as options of training, dates, paths."""
MACHINERY = """
__main__ __builtin__ copy_reg _codecs _reconstructor __newobj__ __newobj_ex__ numpy core _core multiarray
_reconstruct scalar ndarray dtype numeric _frombuffer _pickle __randomstate_ctor __bit_generator_ctor
__generator_ctor mt19937 MT19937 PCG64 _pcg64 pickle5 _make_skel_func
"""
"""Words of pickles by Python and NumPy, of any of their versions."""
PEOPLE = "adam al ann blue dill dk guess hy li mark mock ng patience ro ty"
"""Words that are names of people, and none that nearly each model has, as `max` and `linear` are."""
COMPANIES = "apple intel microsoft"
"""Words of what compiles models that are names of companies."""


class Words:
    """Identifiers and literals as they are gathered."""

    def __init__(self) -> None:
        self.identifiers: set[str] = set()
        self.literals: set[str] = set(LITERALS.split())

    def add(self, *texts: object) -> None:
        """Add the identifiers of texts."""
        for text in texts:
            self.identifiers.update(IDENTIFIER.findall(str(text)))

    def add_operators(self) -> None:
        """Add names of operators, overloads, arguments and types; texts that arguments are by default."""
        for one in torch._C._jit_get_all_schemas():
            self.add(one.name, one.overload_name)
            for argument in [*one.arguments, *one.returns]:
                self.add(argument.name, argument.type)
                if argument.has_default_value() and isinstance(argument.default_value, str):
                    self.literals.add(argument.default_value)
        for name in NAMESPACES.split():
            self.add(name, *dir(getattr(torch.ops, name)))
        self.add(*torch._ops._higher_order_ops)

    def add_names(self) -> None:
        """Add the names of modules, classes and their attributes, and Python's own."""
        self.add(*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *argparse.Namespace().__dir__())
        for name in MODULES.split():
            self.add(name, *dir(importlib.import_module(name)))
        self.add(*sys.stdlib_module_names)
        for name in PICKLED.split():
            module = importlib.import_module(name)
            self.add(name, *(one for one, value in vars(module).items() if isinstance(value, type)))
        for one in (*CLASSES_OF_TORCH, *OF_PYTHON):
            self.add(one.__name__, *dir(one))

    def add_schema(self) -> None:
        """Add the classes and keys of exported programs."""
        for one in vars(export_schema).values():
            if isinstance(one, type) and dataclasses.is_dataclass(one):
                self.add(one.__name__, *(field.name for field in dataclasses.fields(one)))
            elif isinstance(one, enum.EnumMeta):
                self.add(one.__name__, *one.__members__)
        self.add(*CLASSES)

    def add_headers(self) -> None:
        """Add TorchScript's symbols, ONNX's operators, and the functions that compiled models call."""
        for path in sorted(HEADERS.glob("ATen/core/*interned_strings.h")):
            self.add(*SYMBOL.findall(path.read_text(encoding="utf-8")))
        for path in sorted(HEADERS.glob("torch/csrc/inductor/**/*.h")):
            self.add(*SHIM.findall(path.read_text(encoding="utf-8")))
        for pattern in COMPILED.split():
            for path in sorted(HOME.glob(pattern)):
                source = path.read_text(encoding="utf-8")
                if path.suffix == ".py":  # what writes C++, in its texts
                    texts = (
                        one.value for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Constant)
                    )
                    words = [text for text in texts if isinstance(text, str)]
                    self.literals.update(filter(FLAG.fullmatch, words))
                    self.add(*filter(FLAG.fullmatch, words))
                    source = "\n".join(words)
                if path.suffix == ".h":  # whose comments no file has
                    source = COMMENT.sub("", source)
                for role, text, _ in texts_of_code(source, cpp=True):
                    (self.add if role == "name" else self.literals.add)(text.strip())
        for path in sorted(HOME.glob("onnx/**/symbolic_opset*.py")):
            source = path.read_text(encoding="utf-8")
            self.add(*ONNX_OPERATOR.findall(source), *ONNX_ATTRIBUTE.findall(source))

    def add_source(self, path: Path) -> None:
        """Add the names in a source file, and that of the file."""
        place = path.relative_to(HOME.parent)
        self.add(*place.with_suffix("").parts)
        with_literals = place.relative_to(HOME.name).as_posix().startswith(WITH_LITERALS)
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            match node:
                case ast.Attribute(attr=name) | ast.Name(id=name) | ast.arg(arg=name) | ast.alias(name=name):
                    self.add(name)
                case ast.keyword(arg=str(name)):
                    self.add(name)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                    self.add(name)
            if with_literals and place.name in WITH_MESSAGES and id(node) not in docs:
                self.literals.update(_message(node))
            if with_literals and isinstance(node, ast.Compare | ast.arguments | ast.Call):
                for child in ast.iter_child_nodes(node):
                    for one in [child, *getattr(child, "elts", ())]:
                        if isinstance(one, ast.Constant) and isinstance(one.value, str):
                            self.literals.update((SHORT_WORD.fullmatch(one.value) and [one.value]) or ())


def _message(node: ast.AST) -> Iterator[str]:
    """The text of a message: of one with values in it, as TorchScript has it."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        yield "".join(map(str, parts)).strip()
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
        yield node.value.strip()


def gathered() -> Words:
    """All words."""
    words = Words()
    words.add_operators()
    words.add_names()
    words.add_schema()
    words.add_headers()
    for pattern in SOURCES.split():
        for path in sorted(HOME.glob(pattern)):
            if "test" not in path.name and "testing" not in path.parts:
                words.add_source(path)
    words.add(GENERATED, BYTECODE, FORMATS, MACHINERY)
    words.add(
        *(value for name, value in vars(record_kinds).items() if name.isupper() and isinstance(value, str))
    )
    words.literals |= {*DTYPES, *BYTECODE.split(), *SENTENCES}
    return words


def made() -> tuple[str, list[str], list[str]]:
    """What the vocabulary is made from, its identifiers and literals, sorted."""
    words, people = gathered(), {*PEOPLE.split(), *COMPANIES.split()}
    identifiers = {one for one in words.identifiers if one.lower() not in people}
    literals = {
        one
        for one in words.literals
        if one.lower() not in people and any(map(str.isalpha, one)) and "\n" not in one
    }
    return f"torch {torch.__version__.partition('+')[0]}", sorted(identifiers), sorted(literals)


def difference() -> str:
    """Words that the file has and PyTorch does not give, or the other way round, in one line."""
    name, identifiers, literals = made()
    words = vocabulary()
    differing = (words.identifiers ^ set(identifiers)) | (words.literals ^ set(literals))
    return " ".join(sorted(differing)) or ("" if name == words.name else f"made from {words.name}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(difference() or None)
    FILE.write_bytes(packed(*made()))
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")
