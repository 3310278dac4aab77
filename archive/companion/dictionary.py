"""The dictionaries of zstd that all companions share: what their strings or columns are likely to hold.

They are part of the format: one that changes makes companions unreadable. That of version 1 is a list of
words: file names, and names of functions and records, of PyTorch's and Transformers' modules as traces and
archives spell them. Those of version 2, ``texts.zdict`` and ``columns.zdict``, are trained: zstd took out of
companions of many exported programs what they have in common, and how often each byte occurs.
``tools/make_words.py`` did it; none of these programs is among the fixtures.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import zstandard

FOLDER, TEXTS_FILE, COLUMNS_FILE = Path(__file__).parent, "texts.zdict", "columns.zdict"
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


@cache
def texts_of_programs() -> zstandard.ZstdCompressionDict:
    """What strings of exported programs are likely to hold."""
    return zstandard.ZstdCompressionDict((FOLDER / TEXTS_FILE).read_bytes())


@cache
def columns_of_programs() -> zstandard.ZstdCompressionDict:
    """What columns of exported programs are likely to hold."""
    return zstandard.ZstdCompressionDict((FOLDER / COLUMNS_FILE).read_bytes())
