"""The schema of ``.pt2`` JSON, as PyTorch 2.13 declares it in ``torch/_export/serde/schema.py``.

A class is an object with fields; a union is an object with one key, its *tag*. :func:`mismatches` says what
of a value is not of the schema. ``_dict_to_dataclass`` in ``torch/_export/serde/serialize.py``, which takes
values, checks objects and tags. It does not check which plain values stand where, so a number in the place of
a name is refused where the name is used, or nowhere.

Other JSON is declared with the same words, and read by :func:`checked`: the maps of ETRecords, the kernels of
compiled models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.diagnostics import Diagnostic, wrong
from archive.base.errors import ArchiveError, shown
from archive.base.facts import dataclass
from archive.base.json_text import MAX_DEPTH, words

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping

MAJOR = 8
"""The version of the schema that PyTorch 2.13 reads."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; ``item`` is the type of each value."""

    item: Type


@dataclass(frozen=True, slots=True)
class DictOf:
    """An object of any keys.

    Attributes:
        item: the type of each value.
        key: what each key matches as a whole; None where it may be anything.
        key_words: what a key should be, for messages.
    """

    item: Type
    key: re.Pattern[str] | None = None
    key_words: str = ""


@dataclass(frozen=True, slots=True)
class Nullable:
    """A value or ``null``."""

    item: Type


@dataclass(frozen=True, slots=True)
class OneOrMore:
    """A value, or a list of such values."""

    item: Type


@dataclass(frozen=True, slots=True)
class UpTo:
    """An integer from 0 to ``most``."""

    most: int


class JsonClass(NamedTuple):
    """An object with fields.

    Attributes:
        required: the fields that must be there.
        others: those that may be left out.
    """

    required: Mapping[str, Type]
    others: Mapping[str, Type] = {}


Type = str | ListOf | DictOf | Nullable | OneOrMore | UpTo | JsonClass
"""``str``, ``int``, ``bool``, ``float``; the name of a class or union; or what is made of these."""
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

WORDS = {"str": "a text", "int": "an integer", "bool": "true or false", "float": "a number"} | dict.fromkeys(
    ENUMS, "an integer"
)
UNREAD = {"opset_version", "guards_code", "forward_arg_names", "field_names", "sizes", "strides"}
"""Fields with lists and objects that PyTorch takes unseen; sizes and strides are seen where they are used."""
NO_TYPE = "tuple index out of range"
"""What PyTorch says of an object in the place of a list, or of values inside of what should be plain."""

KEY_CHARACTERS, CHECKED_CHARACTERS = 200, 60
"""Characters of a key in a JSON path, and in one of other JSON. PyTorch's own names have some 60."""
MISSING_FIELD = "required positional argument"


def short(key: str, most: int = KEY_CHARACTERS) -> str:
    """A key of any length, for a JSON path."""
    return key if len(key) <= most else f"{key[:most]}…"


def key_error(key: object) -> str:
    """What Python says of a key that is not there; "" of what is no name."""
    return f"KeyError: {short(key)!r}".removesuffix("…'") if isinstance(key, str) else ""


def mismatches(value: object, name: str) -> Iterator[Diagnostic]:
    """The values in a record that are not of the schema, in the order of the schema's fields.

    The messages are those that PyTorch has while it takes values; uses of plain values are not looked at.

    Args:
        value: of the record.
        name: the class that it should be.

    Raises:
        ArchiveError: values are nested too deeply.
    """
    for mismatch in _SchemaComparison().of(value, name):
        yield wrong(*mismatch)


def checked(value: object, kind: Type) -> Any:  # noqa: ANN401 (any JSON)
    """A value that is of a type.

    Raises:
        ArchiveError: it is not; the place is the JSON path of the first part that is wrong.
    """
    for mismatch in _SchemaComparison(CHECKED_CHARACTERS).of(value, kind):
        raise ArchiveError(mismatch.problem, place=mismatch.place)
    return value


class _Mismatch(NamedTuple):
    """A value that is not of its type: place, problem and refusal as :func:`wrong` takes them."""

    place: str
    problem: str
    refusal: str | None


class _SchemaComparison:
    """A value is compared with a type; ``path`` leads to the value that is looked at."""

    def __init__(self, key_characters: int = KEY_CHARACTERS) -> None:
        self.path: list[str | int] = []
        self.key_characters = key_characters

    @property
    def place(self) -> str:
        """The JSON path."""
        steps = (
            f"[{step}]" if isinstance(step, int) else f".{short(step, self.key_characters)}"
            for step in self.path
        )
        return "".join(steps).removeprefix(".")

    def of(self, value: object, kind: Type) -> Iterator[_Mismatch]:
        if isinstance(kind, Nullable):
            if value is not None:
                yield from self.of(value, kind.item)
        elif isinstance(kind, OneOrMore):
            yield from self.of(value, ListOf(kind.item) if isinstance(value, list) else kind.item)
        elif isinstance(kind, UpTo):
            if type(value) is not int or not 0 <= value <= kind.most:
                yield self._other(f"an integer from 0 to {kind.most}", value, None)
        elif isinstance(kind, JsonClass):
            yield from self._fields(value, kind)
        elif not isinstance(kind, str):
            yield from self._items(value, kind)
        elif kind in CLASSES:
            yield from self._fields(value, CLASSES[kind])
        elif kind in UNIONS:
            yield from self._tagged(value, UNIONS[kind])
        elif not _is_plain(value, kind):
            yield self._other(WORDS[kind], value, _plain_message(value, kind))

    def _below(self, step: str | int, value: object, kind: Type) -> Iterator[_Mismatch]:
        self.path.append(step)
        if len(self.path) > MAX_DEPTH:
            raise ArchiveError(place=self.place, expected=f"at most {MAX_DEPTH} values inside one another")
        yield from self.of(value, kind)
        self.path.pop()

    def _items(self, value: object, kind: ListOf | DictOf) -> Iterator[_Mismatch]:
        if isinstance(kind, ListOf) and isinstance(value, list):
            for number, item in enumerate(value):
                yield from self._below(number, item, kind.item)
        elif isinstance(kind, DictOf) and isinstance(value, dict):
            for key, item in value.items():
                if kind.key is not None and not kind.key.fullmatch(key):
                    place = ".".join(filter(None, (self.place, short(key, self.key_characters))))
                    yield _Mismatch(place, f"expected {kind.key_words}, found {shown(key)}", None)
                yield from self._below(key, item, kind.item)
        else:
            message: str | None = ""
            if isinstance(value, dict):
                message = NO_TYPE
            elif (value == "" and isinstance(kind, ListOf)) or UNREAD.intersection(
                self.path[-1:]
            ):  # which has no items either
                message = None
            yield self._other("a list" if isinstance(kind, ListOf) else "an object", value, message)

    def _fields(self, value: object, kind: JsonClass) -> Iterator[_Mismatch]:
        if not isinstance(value, dict):
            message = MISSING_FIELD if isinstance(value, list | str) else "is not iterable"
            yield self._other("an object", value, message)
            return
        for field, inner in kind.required.items():
            if field in value:
                yield from self._below(field, value[field], inner)
            else:
                yield _Mismatch(self.place, f"expected a field {field}, found none", MISSING_FIELD)
        for field, inner in kind.others.items():
            if field in value:
                yield from self._below(field, value[field], inner)

    def _tagged(self, value: object, tags: Mapping[str, Type]) -> Iterator[_Mismatch]:
        if not isinstance(value, dict):
            yield self._other("an object", value, "expected dict, got ")
        elif len(value) != 1:
            found = f"{len(value)} keys"
            yield _Mismatch(self.place, f"expected one key, found {found}", "expected dict with 1 key, got ")
        else:
            ((tag, inner),) = value.items()
            if tag in tags:
                yield from self._below(tag, inner, tags[tag])
            else:
                problem = f"expected a tag like {next(iter(tags))}, found {shown(tag)}"
                yield _Mismatch(self.place, problem, key_error(tag))

    def _other(self, expected: str, value: object, message: str | None) -> _Mismatch:
        return _Mismatch(self.place, f"expected {expected}, found {words(value)}", message)


def _is_plain(value: object, kind: str) -> bool:
    """Whether a value is of a plain type; ``json`` has no numbers beyond floats, so PyTorch writes texts."""
    if kind == "str":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "float":
        return type(value) in (int, float) or value in ("Infinity", "-Infinity", "NaN")
    return type(value) is int


def _plain_message(value: object, kind: str) -> str | None:
    """What PyTorch says of a value that is not of a plain type."""
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
