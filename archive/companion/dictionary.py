"""The dictionary of zstd for the strings of companions: words that strings are likely to hold.

The words are part of the format: a word added or moved would make companions unreadable. Version 1 has file
names, and names of functions and records, of PyTorch's and Transformers' modules as traces and archives
spell them. Version 2 has other words for exported programs: operators, classes, and the lines in which
PyTorch's own modules call them.
"""

from __future__ import annotations

from functools import cache

import zstandard

PACKAGES = "/lib/python3.11/site-packages/"
FUNCTIONAL = (
    "linear layer_norm embedding softmax dropout scaled_dot_product_attention batch_norm relu gelu max_pool2d"
)
MODULES = (
    "activation adaptive batchnorm container conv distance dropout embedding flatten fold instancenorm lazy "
    "linear loss normalization padding pixelshuffle pooling rnn sparse transformer upsampling"
)
MODELS = "albert bart bert clip deberta distilbert electra gpt2 llama mistral opt roberta swin t5 vit whisper"
HELPERS = "activations modeling_layers modeling_utils pytorch_utils masking_utils integrations/sdpa_attention"
CALLS = (
    "torch/jit/_trace.py(\1): trace\n torch/jit/_trace.py(\1): _trace_impl\n "
    "torch/jit/_trace.py(\1): trace_module\n torch/fx/graph_module.py(\1): __call__\n "
    "torch/fx/graph_module.py(\1): call_wrapped\n torch/nn/modules/module.py(\1): _slow_forward\n "
    "torch/nn/modules/module.py(\1): _call_impl\n torch/nn/modules/module.py(\1): _wrapped_call_impl\n"
)
RECORDS = (
    "__torch__.transformers.models.bert.modeling_bert.BertModel code/__torch__.py.debug_pkl "
    "delegated_backends.debug_pkl callstack_debug_map.pkl mobile_debug_handles.pkl"
)


@cache
def dictionary() -> zstandard.ZstdCompressionDict:
    """The words as zstd takes them: the likelier ones behind, where references are shorter."""
    words: list[str] = []
    for model in MODELS.split():
        words.append(f"{PACKAGES}transformers/models/{model}/modeling_{model}.py(\1): forward\n")
        words.append(
            f"code/__torch__/transformers/models/{model}/modeling_{model}/___torch_mangle_\1.py.debug_pkl"
        )
    words += [f"{PACKAGES}transformers/{helper}.py(\1): wrapper\n" for helper in HELPERS.split()]
    for module in MODULES.split():
        words.append(f"__torch__.torch.nn.modules.{module}.___torch_mangle_\1.")
        words.append(f"code/__torch__/torch/nn/modules/{module}/___torch_mangle_\1.py.debug_pkl")
        words.append(f"code/__torch__/torch/nn/modules/{module}.py.debug_pkl")
        words.append(f"{PACKAGES}torch/nn/modules/{module}.py(\1): forward\n")
    words.append("code/__torch__/transformers/activations/___torch_mangle_\1.py.debug_pkl")
    words += [f"{PACKAGES}torch/nn/functional.py(\1): {name}\n" for name in FUNCTIONAL.split()]
    words += [PACKAGES + call for call in CALLS.split(" ")]
    words += RECORDS.split()
    content = "\0".join(words).encode()
    return zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


OPERATORS = (
    "abs adaptive_avg_pool2d addmm alias any arange argmax avg_pool2d bitwise_and bmm clamp "
    "constant_pad_nd copy_ cos cumsum div.Tensor dropout eq.Scalar exp expand floor_divide full "
    "full_like ge.Scalar group_norm gt.Scalar index.Tensor index_select item le.Scalar log logical_not "
    "lt.Scalar masked_fill.Scalar max_pool2d mean mm native_dropout native_layer_norm ne.Scalar neg "
    "new_ones ones pow.Tensor_Scalar reciprocal repeat rsqrt scalar_tensor sigmoid silu sin "
    "slice.Tensor softmax.int split.Tensor sqrt squeeze.dim stack sub.Tensor sum sym_size.int t tanh "
    "to.dtype unbind.int where.self zeros zeros_like _native_batch_norm_legit_no_training _softmax "
    "_to_copy _unsafe_view clone contiguous convolution select.int unsqueeze permute transpose.int "
    "reshape cat embedding batch_norm conv2d relu gelu scaled_dot_product_attention mul.Tensor "
    "layer_norm view add.Tensor linear"
)
CLASSES = (
    "activation.GELU activation.ReLU activation.SiLU activation.Sigmoid activation.Tanh "
    "batchnorm.BatchNorm2d container.ModuleList conv.Conv1d dropout.Dropout linear.Identity "
    "normalization.GroupNorm pooling.AdaptiveAvgPool2d pooling.MaxPool2d rnn.LSTM sparse.Embedding "
    "container.Sequential conv.Conv2d normalization.LayerNorm linear.Linear"
)
LINES = (
    "input = module(input)",
    "return F.gelu(input, approximate=self.approximate)",
    "return F.relu(input, inplace=self.inplace)",
    "return F.dropout(input, self.p, self.training, self.inplace)",
    "return F.max_pool2d(",
    "return F.batch_norm(",
    "return F.conv2d(",
    "return self._conv_forward(input, self.weight, self.bias)",
    "return F.layer_norm(",
    "return F.embedding(",
    "return F.linear(input, self.weight, self.bias)",
)
WRITERS = (
    "method_descriptor. method_descriptor.mul method_descriptor.add function. builtin_function_or_method. "
    "OpOverload. _export_root L__self__ ExportedProgram.module() Interpreter_PropagateUnbackedSymInts "
    "Interpreter_DynamoGraphTransformer create replace getitem _operator.getitem "
    "torch.ops.higher_order.cond true_graph_0 false_graph_0 <eval_with_key>.\1 "
    "stack_trace nn_module_stack source_fn_stack torch_fn from_node forward model"
)


@cache
def of_programs() -> zstandard.ZstdCompressionDict:
    """The words of exported programs, likewise."""
    words = [f"{PACKAGES}transformers/models/{one}/modeling_{one}.py" for one in MODELS.split()]
    words += [f"transformers.models.{one}.modeling_{one}." for one in MODELS.split()]
    words += [f"torch/nn/modules/{module}.py" for module in MODULES.split()]
    words += [f"function.{name}" for name in FUNCTIONAL.split()]
    words += [f"torch.nn.modules.{name}" for name in CLASSES.split()]
    for operator in OPERATORS.split():
        name, _, overload = operator.partition(".")
        words.append(f"{name}torch.ops.aten.{name}.{overload or 'default'}builtin_function_or_method.{name}")
    words += LINES
    words.append(f"{PACKAGES}torch/_dynamo/functional_export.pyres = self._export_root(*args, **kwargs)")
    words.append(f"{PACKAGES}torch/nn/modules/linear.py")
    words += WRITERS.split()
    content = "\0".join(words).encode()
    return zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
