"""The schema of ``.pt2`` JSON, as PyTorch 2.13 declares it in ``torch/_export/serde/schema.py``.

It is declared in the words of :mod:`archive.formats.schema.json`: a class is an object with fields, a union
one with one key, its *tag*. :func:`mismatches` lists what in a value does not match the schema.
``_dict_to_dataclass`` in ``torch/_export/serde/serialize.py``, which reads values, checks objects and tags.
It does not check plain values, so a number in place of a name is refused where the name is used, or nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.diagnostics import Diagnostic, wrong
from archive.formats.schema import json
from archive.formats.schema.json import DictOf, Fault, JsonClass, JsonUnion, ListOf, Nullable, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.schema.json import Mismatch, Type

MAJOR = 8
"""The version of the schema that PyTorch 2.13 reads."""
ENUMS = {"ScalarType", "Layout", "MemoryFormat", "ArgumentKind"}
"""Numbers with names."""

CLASSES: Mapping[str, JsonClass] = {
    "Device": JsonClass({"type": "str"}, {"index": Nullable("int")}),
    "SymExpr": JsonClass({"expr_str": "str"}, {"hint": Nullable("SymExprHint")}),
    "TensorMeta": JsonClass(
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
    "TensorArgument": JsonClass({"name": "str"}),
    "TokenArgument": JsonClass({"name": "str"}),
    "GraphArgument": JsonClass({"name": "str", "graph": "Graph"}),
    "CustomObjArgument": JsonClass({"name": "str", "class_fqn": "str"}),
    "ComplexValue": JsonClass({"real": "float", "imag": "float"}),
    "NamedArgument": JsonClass({"name": "str", "arg": "Argument"}, {"kind": Nullable("ArgumentKind")}),
    "Node": JsonClass(
        {
            "target": "str",
            "inputs": ListOf("NamedArgument"),
            "outputs": ListOf("Argument"),
            "metadata": DictOf("str"),
        },
        {"is_hop_single_tensor_return": Nullable("bool"), "name": Nullable("str")},
    ),
    "Graph": JsonClass(
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
    "UserInputSpec": JsonClass({"arg": "Argument"}),
    "InputToConstantInputSpec": JsonClass({"name": "str", "value": "ConstantValue"}),
    "InputToParameterSpec": JsonClass({"arg": "TensorArgument", "parameter_name": "str"}),
    "InputToBufferSpec": JsonClass({"arg": "TensorArgument", "buffer_name": "str", "persistent": "bool"}),
    "InputToTensorConstantSpec": JsonClass({"arg": "TensorArgument", "tensor_constant_name": "str"}),
    "InputToCustomObjSpec": JsonClass({"arg": "CustomObjArgument", "custom_obj_name": "str"}),
    "InputTokenSpec": JsonClass({"arg": "TokenArgument"}),
    "UserOutputSpec": JsonClass({"arg": "Argument"}),
    "LossOutputSpec": JsonClass({"arg": "TensorArgument"}),
    "BufferMutationSpec": JsonClass({"arg": "TensorArgument", "buffer_name": "str"}),
    "ParameterMutationSpec": JsonClass({"arg": "TensorArgument", "parameter_name": "str"}),
    "GradientToParameterSpec": JsonClass({"arg": "TensorArgument", "parameter_name": "str"}),
    "GradientToUserInputSpec": JsonClass({"arg": "TensorArgument", "user_input_name": "str"}),
    "UserInputMutationSpec": JsonClass({"arg": "TensorArgument", "user_input_name": "str"}),
    "OutputTokenSpec": JsonClass({"arg": "TokenArgument"}),
    "GraphSignature": JsonClass({"input_specs": ListOf("InputSpec"), "output_specs": ListOf("OutputSpec")}),
    "RangeConstraint": JsonClass({"min_val": Nullable("int"), "max_val": Nullable("int")}),
    "ModuleCallSignature": JsonClass(
        {
            "inputs": ListOf("Argument"),
            "outputs": ListOf("Argument"),
            "in_spec": "str",
            "out_spec": "str",
        },
        {"forward_arg_names": Nullable(ListOf("str"))},
    ),
    "ModuleCallEntry": JsonClass({"fqn": "str"}, {"signature": Nullable("ModuleCallSignature")}),
    "NamedTupleDef": JsonClass({"field_names": ListOf("str")}),
    "GraphModule": JsonClass(
        {
            "graph": "Graph",
            "signature": "GraphSignature",
            "module_call_graph": ListOf("ModuleCallEntry"),
        },
        {"metadata": DictOf("str"), "treespec_namedtuple_fields": DictOf("NamedTupleDef")},
    ),
    "SchemaVersion": JsonClass({"major": "int", "minor": "int"}),
    "ExportedProgram": JsonClass(
        {
            "graph_module": "GraphModule",
            "opset_version": DictOf("int"),
            "range_constraints": DictOf("RangeConstraint"),
            "schema_version": "SchemaVersion",
        },
        {"verifiers": ListOf("str"), "torch_version": "str", "guards_code": ListOf("str")},
    ),
    "PayloadMeta": JsonClass(
        {"path_name": "str", "is_param": "bool", "use_pickle": "bool", "tensor_meta": Nullable("TensorMeta")}
    ),
    "PayloadConfig": JsonClass({"config": DictOf("PayloadMeta")}),
}
UNIONS: Mapping[str, JsonUnion] = {
    "SymExprHint": JsonUnion({"as_int": "int", "as_bool": "bool", "as_float": "float"}),
    "SymInt": JsonUnion({"as_expr": "SymExpr", "as_int": "int"}),
    "SymFloat": JsonUnion({"as_expr": "SymExpr", "as_float": "float"}),
    "SymBool": JsonUnion({"as_expr": "SymExpr", "as_bool": "bool"}),
    "SymIntArgument": JsonUnion({"as_name": "str", "as_int": "int"}),
    "SymFloatArgument": JsonUnion({"as_name": "str", "as_float": "float"}),
    "SymBoolArgument": JsonUnion({"as_name": "str", "as_bool": "bool"}),
    "OptionalTensorArgument": JsonUnion({"as_tensor": "TensorArgument", "as_none": "bool"}),
    "Argument": JsonUnion(
        {
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
        }
    ),
    "ConstantValue": JsonUnion(
        {
            "as_none": "bool",
            "as_int": "int",
            "as_float": "float",
            "as_string": "str",
            "as_bool": "bool",
        }
    ),
    "InputSpec": JsonUnion(
        {
            "user_input": "UserInputSpec",
            "parameter": "InputToParameterSpec",
            "buffer": "InputToBufferSpec",
            "tensor_constant": "InputToTensorConstantSpec",
            "custom_obj": "InputToCustomObjSpec",
            "token": "InputTokenSpec",
            "constant_input": "InputToConstantInputSpec",
        }
    ),
    "OutputSpec": JsonUnion(
        {
            "user_output": "UserOutputSpec",
            "loss_output": "LossOutputSpec",
            "buffer_mutation": "BufferMutationSpec",
            "gradient_to_parameter": "GradientToParameterSpec",
            "gradient_to_user_input": "GradientToUserInputSpec",
            "user_input_mutation": "UserInputMutationSpec",
            "token": "OutputTokenSpec",
            "parameter_mutation": "ParameterMutationSpec",
        }
    ),
}

NAMED: Mapping[str, Type] = {**CLASSES, **UNIONS, **dict.fromkeys(ENUMS, "int")}
"""All types that have names."""

UNREAD = {"opset_version", "guards_code", "forward_arg_names", "field_names", "sizes", "strides"}
"""Fields whose lists and objects PyTorch accepts unchecked; sizes and strides are checked where used."""
NO_TYPE = "tuple index out of range"
"""What PyTorch says of an object in place of a list, or of values inside what should be plain."""
MISSING_FIELD = "required positional argument"


def key_error(key: object) -> str:
    """What Python says of a missing key; "" if it isn't a name."""
    return f"KeyError: {short(key)!r}".removesuffix("…'") if isinstance(key, str) else ""


def mismatches(value: object, name: str) -> Iterator[Diagnostic]:
    """The values in a record that do not match the schema, in the order of the schema's fields.

    The messages are those of PyTorch as it reads values; what it does with plain values is not checked.

    Args:
        value: of the record.
    """
    for mismatch in json.mismatches(value, name, NAMED):
        yield wrong(mismatch.place, mismatch.problem, _refusal(mismatch))


def _refusal(mismatch: Mismatch) -> str | None:
    """What PyTorch says of a mismatch, as :func:`wrong` takes it."""
    kind, value = mismatch.kind, mismatch.value
    if mismatch.fault is Fault.FIELD:
        return MISSING_FIELD
    if mismatch.fault is Fault.KEYS:
        return "expected dict with 1 key, got "
    if mismatch.fault is Fault.TAG:
        return key_error(value)
    if isinstance(kind, JsonUnion):
        return "expected dict, got "
    if isinstance(kind, JsonClass):
        return MISSING_FIELD if isinstance(value, list | str) else "is not iterable"
    if isinstance(kind, ListOf | DictOf):
        if isinstance(value, dict):
            return NO_TYPE
        has_no_items = value == "" and isinstance(kind, ListOf)
        return None if has_no_items or mismatch.step in UNREAD else ""
    return _plain_refusal(value, kind)


def _plain_refusal(value: object, kind: Type) -> str | None:
    """What PyTorch says of a value that isn't of the plain type."""
    if isinstance(value, dict) or (isinstance(value, list) and value):
        return NO_TYPE
    if kind == "float" and value is None:
        return "float() argument must be a string or a real number, not 'NoneType'"
    if kind == "float" and isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return "could not convert string to float"
    return None
