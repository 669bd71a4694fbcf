"""Runs of every architecture that the export knows, ours and as transformers builds them from the export."""

import functools
import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lab.checkpoint.export import hf_config, to_hf
from lab.config.compose import Override, compose
from lab.config.schema import RunConfig
from lab.model.transformer import Transformer
from lab.plan.budget import TrainingText, resolve
from tests.tiny_model import build

CORPUS = TrainingText("fingerprint", bytes_per_token=1.0, train_tokens=10**9, tokenizer_hash="t")
TINY = (
    "size=nano",
    "size.d_model=32",
    "size.num_layers=4",
    "size.head_dim=8",
    "size.context_length=64",
    "vocab.tokenizer=bytes",
    "vocab.value=257",
)
PRESETS = {
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "bloom": "BloomForCausalLM",
    "llama2": "LlamaForCausalLM",
    "llama3": "LlamaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "command_a": "Cohere2ForCausalLM",
}
# Every architecture of the export at least once: {name: (class in transformers, overrides)}.
MODELS: dict[str, tuple[str, list[str]]] = {
    **{name: (architecture, [f"arch={name}"]) for name, architecture in PRESETS.items()},
    "none": ("LlamaForCausalLM", []),
    "serial neox": ("GPTNeoXForCausalLM", ["arch=gpt_neox", "block=serial", "position=rope"]),
    "biased llama": (
        "LlamaForCausalLM",
        ["arch=llama3", "bias=all", "heads.head_dim=12", "embedding=tied_unscaled"],
    ),
    "qwen2": ("Qwen2ForCausalLM", ["arch=llama3", "bias=qkv"]),
    "qwen3": ("Qwen3ForCausalLM", ["arch=llama3", "norm.eps=1e-6", "stability=qk_norm"]),
    "mistral": ("MistralForCausalLM", ["arch=llama3", "pattern=window", "pattern.window=7"]),
    "windowed mixtral": ("MixtralForCausalLM", ["arch=mixtral", "pattern=window", "pattern.window=7"]),
    "olmo": ("OlmoForCausalLM", ["arch=llama2", "norm=nonparametric"]),
}


@functools.cache
def run_of(name: str) -> RunConfig:
    chosen = MODELS[name][1]
    small = ["pattern.window=7"] if name in ("gemma2", "command_a") else []
    return resolve(compose([*map(Override, (*TINY, *chosen, *small))]), CORPUS)


class Exact(TorchFunctionMode):
    """transformers rounds norms, rotations and softmaxes to fp32 on the way, whatever the dtype; here
    float64 stays.

    Tables of angles, which carry no gradient, are in fp32 on both sides.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        first = args[0] if args else None
        if isinstance(first, Tensor) and first.dtype == torch.float64 and first.requires_grad:
            if func is Tensor.float or (
                func is Tensor.to and torch.float32 in (*args[1:], kwargs.get("dtype"))
            ):
                return first
            if func in (F.softmax, torch.softmax, Tensor.softmax):
                kwargs.pop("dtype", None)
        return func(*args, **kwargs)


def ours(run: RunConfig) -> Transformer:
    """A model whose every part has a say: matrices of unit scale, gains and biases not neutral."""
    model, generator = build(run), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter, role in model.roles().items():
            value = model.get_parameter(parameter)
            if role in ("norm_gain", "norm_bias", "bias"):
                value += 0.3 * torch.randn(value.shape, generator=generator)
            else:
                value.normal_(std=1.0 if role == "position" else value.shape[-1] ** -0.5, generator=generator)
    return model


def theirs(run: RunConfig, model: Transformer, dtype: torch.dtype) -> nn.Module:
    """The model of transformers that the export names, with our weights."""
    config = transformers.AutoConfig.for_model(**hf_config(run))
    other = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", experts_implementation="eager"
    )
    other.eval()
    answer = other.load_state_dict(to_hf(run, model.state_dict()), strict=False)
    assert not answer.unexpected_keys
    assert answer.missing_keys == (["lm_head.weight"] if run.embedding.tied else [])
    other.tie_weights()
    if config.model_type == "bloom" and dtype == torch.float64:
        for layer in other.transformer.h:  # Its own has sqrt(2 / pi) to eight digits.
            layer.mlp.gelu_impl = nn.GELU("tanh")
    other = other.to(dtype)
    if config.model_type == "gemma2":  # Its sqrt(d_model) is kept in fp32.
        other.model.embed_tokens.embed_scale = torch.tensor(run.shape.d_model**0.5, dtype=dtype)
    return other
