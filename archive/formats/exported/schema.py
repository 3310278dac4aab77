"""The schema of ``.pt2`` JSON, as PyTorch 2.13 declares it in ``torch/_export/serde/schema.py``.

A class is an object with fields; a union is an object with one key, its *tag*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

MAJOR = 8
"""The version of the schema that PyTorch 2.13 reads."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; ``item`` is the type of each value."""

    item: Type


@dataclass(frozen=True, slots=True)
class DictOf:
    """An object of any keys; ``item`` is the type of each value."""

    item: Type


@dataclass(frozen=True, slots=True)
class Optional:
    """A value or ``null``."""

    item: Type


Type = str | ListOf | DictOf | Optional
"""``str``, ``int``, ``bool``, ``float``; the name of a class or union; or what is made of these."""
ENUMS = {"ScalarType", "Layout", "MemoryFormat", "ArgumentKind"}
"""Numbers with names."""


class Class(NamedTuple):
    """A class.

    Attributes:
        required: the fields that must be there.
        others: those that may be left out.
    """

    required: Mapping[str, Type]
    others: Mapping[str, Type] = {}


CLASSES: Mapping[str, Class] = {
    "Device": Class({"type": "str"}, {"index": Optional("int")}),
    "SymExpr": Class({"expr_str": "str"}, {"hint": Optional("SymExprHint")}),
    "TensorMeta": Class(
        {
            "dtype": "ScalarType",
            "sizes": ListOf("SymInt"),
            "requires_grad": "bool",
            "device": "Device",
            "strides": ListOf("SymInt"),
            "storage_offset": "SymInt",
            "layout": "Layout",
        }
    ),
    "TensorArgument": Class({"name": "str"}),
    "TokenArgument": Class({"name": "str"}),
    "GraphArgument": Class({"name": "str", "graph": "Graph"}),
    "CustomObjArgument": Class({"name": "str", "class_fqn": "str"}),
    "ComplexValue": Class({"real": "float", "imag": "float"}),
    "NamedArgument": Class({"name": "str", "arg": "Argument"}, {"kind": Optional("ArgumentKind")}),
    "Node": Class(
        {
            "target": "str",
            "inputs": ListOf("NamedArgument"),
            "outputs": ListOf("Argument"),
            "metadata": DictOf("str"),
        },
        {"is_hop_single_tensor_return": Optional("bool"), "name": Optional("str")},
    ),
    "Graph": Class(
        {
            "inputs": ListOf("Argument"),
            "outputs": ListOf("Argument"),
            "nodes": ListOf("Node"),
            "tensor_values": DictOf("TensorMeta"),
            "sym_int_values": DictOf("SymInt"),
            "sym_bool_values": DictOf("SymBool"),
        },
        {
            "is_single_tensor_return": "bool",
            "custom_obj_values": DictOf("CustomObjArgument"),
            "sym_float_values": DictOf("SymFloat"),
        },
    ),
    "UserInputSpec": Class({"arg": "Argument"}),
    "InputToConstantInputSpec": Class({"name": "str", "value": "ConstantValue"}),
    "InputToParameterSpec": Class({"arg": "TensorArgument", "parameter_name": "str"}),
    "InputToBufferSpec": Class({"arg": "TensorArgument", "buffer_name": "str", "persistent": "bool"}),
    "InputToTensorConstantSpec": Class({"arg": "TensorArgument", "tensor_constant_name": "str"}),
    "InputToCustomObjSpec": Class({"arg": "CustomObjArgument", "custom_obj_name": "str"}),
    "InputTokenSpec": Class({"arg": "TokenArgument"}),
    "UserOutputSpec": Class({"arg": "Argument"}),
    "LossOutputSpec": Class({"arg": "TensorArgument"}),
    "BufferMutationSpec": Class({"arg": "TensorArgument", "buffer_name": "str"}),
    "ParameterMutationSpec": Class({"arg": "TensorArgument", "parameter_name": "str"}),
    "GradientToParameterSpec": Class({"arg": "TensorArgument", "parameter_name": "str"}),
    "GradientToUserInputSpec": Class({"arg": "TensorArgument", "user_input_name": "str"}),
    "UserInputMutationSpec": Class({"arg": "TensorArgument", "user_input_name": "str"}),
    "OutputTokenSpec": Class({"arg": "TokenArgument"}),
    "GraphSignature": Class({"input_specs": ListOf("InputSpec"), "output_specs": ListOf("OutputSpec")}),
    "RangeConstraint": Class({"min_val": Optional("int"), "max_val": Optional("int")}),
    "ModuleCallSignature": Class(
        {
            "inputs": ListOf("Argument"),
            "outputs": ListOf("Argument"),
            "in_spec": "str",
            "out_spec": "str",
        },
        {"forward_arg_names": Optional(ListOf("str"))},
    ),
    "ModuleCallEntry": Class({"fqn": "str"}, {"signature": Optional("ModuleCallSignature")}),
    "NamedTupleDef": Class({"field_names": ListOf("str")}),
    "GraphModule": Class(
        {
            "graph": "Graph",
            "signature": "GraphSignature",
            "module_call_graph": ListOf("ModuleCallEntry"),
        },
        {"metadata": DictOf("str"), "treespec_namedtuple_fields": DictOf("NamedTupleDef")},
    ),
    "SchemaVersion": Class({"major": "int", "minor": "int"}),
    "ExportedProgram": Class(
        {
            "graph_module": "GraphModule",
            "opset_version": DictOf("int"),
            "range_constraints": DictOf("RangeConstraint"),
            "schema_version": "SchemaVersion",
        },
        {"verifiers": ListOf("str"), "torch_version": "str", "guards_code": ListOf("str")},
    ),
    "PayloadMeta": Class(
        {"path_name": "str", "is_param": "bool", "use_pickle": "bool", "tensor_meta": Optional("TensorMeta")}
    ),
    "PayloadConfig": Class({"config": DictOf("PayloadMeta")}),
}
UNIONS: Mapping[str, Mapping[str, Type]] = {
    "SymExprHint": {"as_int": "int", "as_bool": "bool", "as_float": "float"},
    "SymInt": {"as_expr": "SymExpr", "as_int": "int"},
    "SymFloat": {"as_expr": "SymExpr", "as_float": "float"},
    "SymBool": {"as_expr": "SymExpr", "as_bool": "bool"},
    "SymIntArgument": {"as_name": "str", "as_int": "int"},
    "SymFloatArgument": {"as_name": "str", "as_float": "float"},
    "SymBoolArgument": {"as_name": "str", "as_bool": "bool"},
    "OptionalTensorArgument": {"as_tensor": "TensorArgument", "as_none": "bool"},
    "Argument": {
        "as_none": "bool",
        "as_tensor": "TensorArgument",
        "as_tensors": ListOf("TensorArgument"),
        "as_int": "int",
        "as_ints": ListOf("int"),
        "as_float": "float",
        "as_floats": ListOf("float"),
        "as_string": "str",
        "as_strings": ListOf("str"),
        "as_sym_int": "SymIntArgument",
        "as_sym_ints": ListOf("SymIntArgument"),
        "as_scalar_type": "ScalarType",
        "as_memory_format": "MemoryFormat",
        "as_layout": "Layout",
        "as_device": "Device",
        "as_bool": "bool",
        "as_bools": ListOf("bool"),
        "as_sym_bool": "SymBoolArgument",
        "as_sym_bools": ListOf("SymBoolArgument"),
        "as_graph": "GraphArgument",
        "as_optional_tensors": ListOf("OptionalTensorArgument"),
        "as_custom_obj": "CustomObjArgument",
        "as_operator": "str",
        "as_sym_float": "SymFloatArgument",
        "as_sym_floats": ListOf("SymFloatArgument"),
        "as_optional_tensor": "OptionalTensorArgument",
        "as_complex": "ComplexValue",
        "as_nested_tensors": ListOf(ListOf("TensorArgument")),
        "as_int_lists": ListOf(ListOf("int")),
        "as_string_to_argument": DictOf("Argument"),
        "as_float_lists": ListOf(ListOf("float")),
    },
    "ConstantValue": {
        "as_none": "bool",
        "as_int": "int",
        "as_float": "float",
        "as_string": "str",
        "as_bool": "bool",
    },
    "InputSpec": {
        "user_input": "UserInputSpec",
        "parameter": "InputToParameterSpec",
        "buffer": "InputToBufferSpec",
        "tensor_constant": "InputToTensorConstantSpec",
        "custom_obj": "InputToCustomObjSpec",
        "token": "InputTokenSpec",
        "constant_input": "InputToConstantInputSpec",
    },
    "OutputSpec": {
        "user_output": "UserOutputSpec",
        "loss_output": "LossOutputSpec",
        "buffer_mutation": "BufferMutationSpec",
        "gradient_to_parameter": "GradientToParameterSpec",
        "gradient_to_user_input": "GradientToUserInputSpec",
        "user_input_mutation": "UserInputMutationSpec",
        "token": "OutputTokenSpec",
        "parameter_mutation": "ParameterMutationSpec",
    },
}
