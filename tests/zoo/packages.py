"""Models of other packages, by their configurations, with random weights."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.zoo.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.zoo.sample import Inputs, Way

    Made = tuple[nn.Module, Inputs]


def image(side: int) -> torch.Tensor:
    return torch.rand(1, 3, side, side)


# --- torchvision -------------------------------------------------------------------------------------


def vision(module: str, name: str, side: int, **options: Any) -> Made:  # noqa: ANN401 (the models' own)
    models = importlib.import_module(f"torchvision.models{module}")
    made = getattr(models, name)(weights=None, **options)
    return made, (image(side),)


def detection(name: str, **options: Any) -> Made:  # noqa: ANN401
    """A detector that has run once: the first call of some makes an object that they keep."""
    made, _ = vision(".detection", name, 64, weights_backbone=None, num_classes=5, **options)
    inputs = ([torch.rand(3, 64, 64), torch.rand(3, 64, 80)],)
    with torch.no_grad():
        assert all(len(one["boxes"]) for one in made.eval()(*inputs)), (
            "it finds nothing that one could compare"
        )
    return made, inputs


def classifier(name: str, way: Way = "scripted", **options: Any) -> Sample:  # noqa: ANN401
    build = partial(vision, "", name, 64, num_classes=10, **options)
    return Sample("torchvision, classification", name, build, way=way, package="torchvision")


def segmenter(name: str) -> Sample:
    build = partial(vision, ".segmentation", name, 64, weights_backbone=None, num_classes=5)
    return Sample("torchvision, segmentation", name, build, package="torchvision")


def detector(name: str, **options: Any) -> Sample:  # noqa: ANN401
    build = partial(detection, name, **options)
    return Sample("torchvision, detection", name, build, package="torchvision", result=with_losses)


def with_losses(detections: Any) -> Any:  # noqa: ANN401
    """What a scripted detector gives: its losses, of which it has none when it is not trained, come first."""
    return {}, detections


SMALL = {"min_size": 64, "max_size": 96}
TORCHVISION = [
    classifier("alexnet"),
    classifier("vgg11_bn"),
    classifier("resnet18"),
    classifier("densenet121"),
    classifier("googlenet", "traced", init_weights=False),  # scripted, it gives another type than eager
    classifier("shufflenet_v2_x1_0"),
    classifier("mobilenet_v3_small"),
    classifier("efficientnet_b0"),
    classifier("convnext_tiny"),
    classifier("vit_b_32", image_size=64),
    classifier("swin_t"),
    segmenter("fcn_resnet50"),
    segmenter("deeplabv3_resnet50"),
    segmenter("lraspp_mobilenet_v3_large"),
    detector("fasterrcnn_mobilenet_v3_large_fpn", **SMALL),
    detector("maskrcnn_resnet50_fpn", **SMALL),
    detector("retinanet_resnet50_fpn", score_thresh=0.001, **SMALL),
    detector("fcos_resnet50_fpn", score_thresh=0.001, **SMALL),
    detector("ssdlite320_mobilenet_v3_large"),
]

# --- transformers ------------------------------------------------------------------------------------

WORDS, WIDTH = 100, 32
TOKENS = torch.arange(1, 9)[None]


def language(model: str, config: str, *inputs: Any, **options: Any) -> Made:  # noqa: ANN401
    package = importlib.import_module("transformers")
    package.utils.logging.set_verbosity_error()
    return getattr(package, model)(getattr(package, config)(attn_implementation="eager", **options)), inputs


class Positional(nn.Module):
    """A model whose inputs are named, called by position; its result is a tuple."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: torch.Tensor) -> Any:  # noqa: ANN401
        return self.model(**dict(zip(self.names, inputs, strict=True)), use_cache=False).to_tuple()


def bert() -> Made:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    inputs = TOKENS, torch.ones_like(TOKENS)
    return language("BertModel", "BertConfig", *inputs, vocab_size=WORDS, return_dict=False, **sizes)


def gpt() -> Made:
    sizes = {"n_embd": WIDTH, "n_layer": 2, "n_head": 2, "vocab_size": WORDS, "n_positions": 32}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return language("GPT2Model", "GPT2Config", TOKENS, return_dict=False, use_cache=False, **sizes, **ends)


def t5() -> Made:
    sizes = {"d_model": WIDTH, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": WORDS}
    made, inputs = language("T5Model", "T5Config", TOKENS, TOKENS[:, :4], **sizes)
    return Positional(made, "input_ids", "decoder_input_ids"), inputs


def vit() -> Made:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    sides = {"image_size": 32, "patch_size": 8}
    return language("ViTModel", "ViTConfig", image(32), return_dict=False, **sides, **sizes)


def whisper() -> Made:
    sizes = {"d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": WORDS}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1}
    more = {"num_mel_bins": 8, "max_source_positions": 20, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    sound = torch.randn(1, 8, 40)
    made, inputs = language("WhisperModel", "WhisperConfig", sound, TOKENS, **sizes, **heads, **ends, **more)
    return Positional(made, "input_features", "decoder_input_ids"), inputs


def decoder(model: str, **options: Any) -> Made:  # noqa: ANN401
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "vocab_size": WORDS}
    return language(f"{model}Model", f"{model}Config", TOKENS, use_cache=False, **sizes, **options)


def picture(model: str, **options: Any) -> Made:  # noqa: ANN401
    return language(f"{model}Model", f"{model}Config", image(32), **options)


HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2]}


def exported_transformer(name: str, build: Callable[[], Made]) -> Sample:
    return Sample(
        "transformers, exported", f"{name}, exported", build, way="exported", package="transformers"
    )


EXPORTED = [
    exported_transformer("BERT", bert),
    exported_transformer("GPT-2", gpt),
    exported_transformer("T5", t5),
    exported_transformer("ViT", vit),
    exported_transformer("Whisper", whisper),
    exported_transformer("Llama", partial(decoder, "Llama", **HEADS)),
    exported_transformer("Qwen2", partial(decoder, "Qwen2", **HEADS)),
    exported_transformer("Mamba", partial(decoder, "Mamba", state_size=4)),
    exported_transformer("Swin", partial(picture, "Swin", window_size=4, **SWIN)),
    exported_transformer(
        "ConvNeXt", partial(picture, "ConvNext", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)
    ),
]


def transformer(name: str, build: Callable[[], Made], way: Way = "traced") -> Sample:
    return Sample("transformers", name, build, way=way, package="transformers")


TRANSFORMERS = [
    transformer("BERT", bert),
    transformer("GPT-2", gpt),
    transformer("T5", t5),
    transformer("ViT", vit),
    transformer("Whisper", whisper),
]

# --- torchaudio and timm -----------------------------------------------------------------------------


def audio(name: str, *inputs: Any, **options: Any) -> Made:  # noqa: ANN401
    return getattr(importlib.import_module("torchaudio.models"), name)(**options), inputs


def wav2vec2() -> Made:
    made: Callable[..., Made] = partial(audio, "wav2vec2_model", torch.randn(1, 2000), torch.tensor([2000]))
    return made(
        extractor_mode="group_norm",
        extractor_conv_layer_config=[(16, 10, 5), (16, 3, 2), (16, 3, 2)],
        extractor_conv_bias=False,
        encoder_embed_dim=WIDTH,
        encoder_projection_dropout=0.1,
        encoder_pos_conv_kernel=8,
        encoder_pos_conv_groups=4,
        encoder_num_layers=2,
        encoder_num_heads=2,
        encoder_attention_dropout=0.1,
        encoder_ff_interm_features=64,
        encoder_ff_interm_dropout=0.1,
        encoder_dropout=0.1,
        encoder_layer_norm_first=False,
        encoder_layer_drop=0.1,
        aux_num_out=10,
    )


def sound(name: str, build: Callable[[], Made]) -> Sample:
    return Sample("torchaudio", name, build, package="torchaudio")


def frames() -> torch.Tensor:
    return torch.randn(2, 12, 16)


TORCHAUDIO = [
    sound("Wav2Vec2", wav2vec2),
    sound(
        "Conformer",
        lambda: audio(
            "Conformer",
            frames(),
            torch.tensor([12, 9]),
            input_dim=16,
            num_heads=2,
            ffn_dim=32,
            num_layers=2,
            depthwise_conv_kernel_size=5,
        ),
    ),
    sound(
        "Emformer",
        lambda: audio(
            "Emformer",
            frames(),
            torch.tensor([10, 8]),
            input_dim=16,
            num_heads=2,
            ffn_dim=32,
            num_layers=2,
            segment_length=4,
            right_context_length=2,
        ),
    ),
    sound(
        "ConvTasNet",
        lambda: audio(
            "ConvTasNet", torch.randn(1, 1, 400), enc_num_feats=16, msk_num_feats=8, msk_num_hidden_feats=16
        ),
    ),
]


def pytorch_image(name: str, **options: Any) -> Sample:  # noqa: ANN401
    def build() -> Made:
        package = importlib.import_module("timm")
        return package.create_model(name, num_classes=10, **options), (image(64),)

    return Sample("timm", name, build, package="timm")


TIMM = [
    pytorch_image("seresnext26d_32x4d"),
    pytorch_image("mixer_s32_224", img_size=64),
    pytorch_image("convmixer_768_32"),
]
SAMPLES = [*TORCHVISION, *TRANSFORMERS, *EXPORTED, *TORCHAUDIO, *TIMM]
