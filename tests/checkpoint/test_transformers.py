"""The same weights in Hugging Face transformers give the same logits and gradients.

Eight published architectures meet most of the axes: Llama (pre-norm, SwiGLU, RoPE; with shared key heads
as Llama 3), Mistral (sliding window), Qwen2 (biases of q, k, v), Qwen3 (norm of q and k), OLMo 2 (output
norm), Gemma 2 (double norm, GeGLU, both soft-caps, windows in turn), GPT-NeoX (LayerNorm, biases, partial
rotary) and BLOOM (ALiBi). One part that is not an axis here is replaced in theirs where it must be: the
norm that rounds to fp32, and the softmax that does.
"""

import dataclasses
import os
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from lab.config.schema import RunConfig, Shape
from lab.model.transformer import Transformer
from tests.tiny_model import EMBEDDING, INIT, STABILITY, build, tiny, tokens

EPS = 1e-6
SHAPE = Shape(
    d_model=64,
    num_layers=2,
    num_heads=4,
    head_dim=12,
    d_ff=48,
    vocab_size=257,
    context_length=64,
    num_kv_heads=None,
)
SHARED = dataclasses.replace(SHAPE, num_kv_heads=2)
FUSED = dataclasses.replace(SHAPE, head_dim=16, d_ff=4 * 64)
ONE_HEAD = dataclasses.replace(
    SHAPE, num_heads=1
)  # OLMo 2 normalises q and k over all heads at once: equal for one head
QK_NORM = dataclasses.replace(STABILITY, qk_norm=True)
CAPS = dataclasses.replace(STABILITY, attention_softcap=2.0, output_softcap=3.0)
RMSNORM, LAYERNORM = {"name": "rmsnorm", "eps": EPS}, {"name": "layernorm", "eps": EPS}
WINDOWS = {"name": "interleaved", "window": 7, "local_layers": 1, "global_position": "keep"}

ATTENTION = {f"attention.{p}.weight": f"self_attn.{p}_proj.weight" for p in "qkv"}
LINEAR = ATTENTION | {
    "attention.out.weight": "self_attn.o_proj.weight",
    "ffn.gate.weight": "mlp.gate_proj.weight",
    "ffn.up.weight": "mlp.up_proj.weight",
    "ffn.down.weight": "mlp.down_proj.weight",
}
QKV_BIASES = {
    name.replace("weight", "bias"): their.replace("weight", "bias") for name, their in ATTENTION.items()
}
QK_NORMS = {f"attention.{p}_norm.weight": f"self_attn.{p}_norm.weight" for p in "qk"}
PRE_NORMS = {
    "attention_placement.norm.weight": "input_layernorm.weight",
    "ffn_placement.norm.weight": "post_attention_layernorm.weight",
}
OUTPUT_NORMS = {
    "attention_placement.norm.weight": "post_attention_layernorm.weight",
    "ffn_placement.norm.weight": "post_feedforward_layernorm.weight",
}
DOUBLE_NORMS = {
    "attention_placement.input_norm.weight": "input_layernorm.weight",
    "attention_placement.output_norm.weight": "post_attention_layernorm.weight",
    "ffn_placement.input_norm.weight": "pre_feedforward_layernorm.weight",
    "ffn_placement.output_norm.weight": "post_feedforward_layernorm.weight",
}


def with_biases(names: dict[str, str]) -> dict[str, str]:
    return {
        f"{ours}.{kind}": f"{theirs}.{kind}" for ours, theirs in names.items() for kind in ("weight", "bias")
    }


def fused(attention: str) -> dict[str, str]:
    """Queries, keys and values of a head stand together in one matrix: GPT-NeoX, BLOOM."""
    return with_biases(
        {f"attention.{p}": f"{attention}.query_key_value" for p in "qkv"}
        | {
            "attention.out": f"{attention}.dense",
            "ffn.up": "mlp.dense_h_to_4h",
            "ffn.down": "mlp.dense_4h_to_h",
        }
        | {"attention_placement.norm": "input_layernorm", "ffn_placement.norm": "post_attention_layernorm"}
    )


class Architecture(NamedTuple):
    """changes: ours against the baseline; block: our names in a block -> theirs; outside: likewise for the
    rest.
    """

    theirs: str
    changes: dict[str, Any]
    block: dict[str, str]
    options: Callable[[Shape], dict[str, Any]]
    outside: dict[str, str] = {
        "embedding.weight": "model.embed_tokens.weight",
        "final_norm.weight": "model.norm.weight",
        "head.weight": "lm_head.weight",
    }
    layers: str = "model.layers"


def llama_like(**more: Any) -> Callable[[Shape], dict[str, Any]]:
    return lambda s: dict(
        hidden_size=s.d_model,
        intermediate_size=s.d_ff,
        num_hidden_layers=s.num_layers,
        num_attention_heads=s.num_heads,
        num_key_value_heads=s.kv_heads,
        head_dim=s.head_dim,
        max_position_embeddings=s.context_length,
        rms_norm_eps=EPS,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False,
        **({"hidden_act": "silu"} | more),
    )


def neox(s: Shape) -> dict[str, Any]:
    return dict(
        hidden_size=s.d_model,
        intermediate_size=s.d_ff,
        num_hidden_layers=s.num_layers,
        num_attention_heads=s.num_heads,
        max_position_embeddings=s.context_length,
        layer_norm_eps=EPS,
        hidden_act="gelu",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    )


def bloom(s: Shape) -> dict[str, Any]:
    return dict(hidden_size=s.d_model, n_layer=s.num_layers, n_head=s.num_heads, layer_norm_epsilon=EPS)


LAYERNORM_BIASED = {"norm": LAYERNORM, "bias": "all", "activation": "gelu", "shape": FUSED}
ARCHITECTURES = {
    "Llama": Architecture("Llama", {}, LINEAR | PRE_NORMS, llama_like()),
    "Llama 3": Architecture("Llama", {"shape": SHARED}, LINEAR | PRE_NORMS, llama_like()),
    "Mistral": Architecture(
        "Mistral",
        {"shape": SHARED, "pattern": {"name": "window", "window": 7}},
        LINEAR | PRE_NORMS,
        llama_like(sliding_window=7),
    ),
    "Qwen2": Architecture(
        "Qwen2",
        {"shape": dataclasses.replace(SHARED, head_dim=16), "bias": "qkv"},
        LINEAR | PRE_NORMS | QKV_BIASES,
        llama_like(),
    ),
    "Qwen3": Architecture("Qwen3", {"stability": QK_NORM}, LINEAR | PRE_NORMS | QK_NORMS, llama_like()),
    "Olmo2": Architecture(
        "Olmo2",
        {"norm_placement": "output", "shape": ONE_HEAD, "stability": QK_NORM},
        LINEAR | OUTPUT_NORMS | QK_NORMS,
        llama_like(),
    ),
    "Gemma2": Architecture(
        "Gemma2",
        {
            "norm_placement": "double",
            "activation": "geglu",
            "stability": CAPS,
            "shape": SHARED,
            "pattern": WINDOWS,
            "embedding": dataclasses.replace(EMBEDDING, scaled=True),
        },
        LINEAR | DOUBLE_NORMS,
        llama_like(
            hidden_activation="gelu",
            query_pre_attn_scalar=SHAPE.head_dim,
            sliding_window=7,
            attn_logit_softcapping=CAPS.attention_softcap,
            final_logit_softcapping=CAPS.output_softcap,
            attn_implementation="eager",
        ),
    ),
    "GPTNeoX": Architecture(
        "GPTNeoX",
        LAYERNORM_BIASED | {"block": "parallel_two_norms", "position": "rope_partial"},
        fused("attention"),
        neox,
        with_biases({"final_norm": "gpt_neox.final_layer_norm"})
        | {"embedding.weight": "gpt_neox.embed_in.weight", "head.weight": "lm_head.weight"},
        "gpt_neox.layers",
    ),
    "GPTNeoX serial": Architecture(
        "GPTNeoX",
        LAYERNORM_BIASED | {"position": "rope_partial"},
        fused("attention"),
        lambda s: neox(s) | {"use_parallel_residual": False},
        with_biases({"final_norm": "gpt_neox.final_layer_norm"})
        | {"embedding.weight": "gpt_neox.embed_in.weight", "head.weight": "lm_head.weight"},
        "gpt_neox.layers",
    ),
    "Bloom": Architecture(
        "Bloom",
        LAYERNORM_BIASED
        | {
            "position": "alibi",
            "embedding": dataclasses.replace(EMBEDDING, tied=True, head_scaled=False, normed=True),
            "init": dataclasses.replace(INIT, embedding_std=0.1),
        },
        fused("self_attention"),
        bloom,
        with_biases(
            {"embedding_norm": "transformer.word_embeddings_layernorm", "final_norm": "transformer.ln_f"}
        )
        | {"embedding.weight": "transformer.word_embeddings.weight"},
        "transformer.h",
    ),
}


class ExactNorm(nn.Module):
    """RMSNorm as the paper has it. The one in transformers rounds to fp32 on the way, whatever the dtype."""

    def __init__(self, gain: Tensor):
        super().__init__()
        self.weight = nn.Parameter(gain.clone())

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * self.weight


def ours(architecture: Architecture) -> tuple[RunConfig, Transformer]:
    config = tiny(**{"shape": SHAPE, "norm": RMSNORM} | architecture.changes)
    model, generator = build(config), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, role in model.roles().items():
            if role in {"norm_gain", "norm_bias", "bias"}:
                value = model.get_parameter(name)
                value += 0.3 * torch.randn(value.shape, generator=generator)
    return config, model


def names_of(architecture: Architecture, shape: Shape) -> dict[str, list[str]]:
    """{theirs: ours}, several of ours where theirs is fused."""
    names: dict[str, list[str]] = {their: [our] for our, their in architecture.outside.items()}
    for layer in range(shape.num_layers):
        for our, their in architecture.block.items():
            names.setdefault(f"{architecture.layers}.{layer}.{their}", []).append(f"blocks.{layer}.{our}")
    return names


def joined(parts: list[Tensor], shape: Shape) -> Tensor:
    """One tensor of ours as it is; q, k and v as [num_heads, (q, k, v), head_dim, ...] in one."""
    if len(parts) == 1:
        return parts[0]
    return torch.stack([p.unflatten(0, (shape.num_heads, shape.head_dim)) for p in parts], 1).flatten(0, 2)


def theirs(architecture: Architecture, config: RunConfig, model: Transformer) -> nn.Module:
    """The transformers model with our weights."""
    options = architecture.options(config.shape)
    other = getattr(transformers, f"{architecture.theirs}ForCausalLM")(
        getattr(transformers, f"{architecture.theirs}Config")(vocab_size=config.shape.vocab_size, **options)
    ).eval()
    if architecture.theirs == "Bloom":
        for block in other.transformer.h:
            block.mlp.gelu_impl = (
                nn.GELU()
            )  # theirs is an approximation; the axis has both, this test needs one
    names = names_of(architecture, config.shape)
    assert {our for ours_ in names.values() for our in ours_} == set(model.roles())
    assert set(names) == {name for name, _ in other.named_parameters()}
    for their, of_ours in names.items():
        value = joined([model.get_parameter(name).detach() for name in of_ours], config.shape)
        if model.roles()[of_ours[0]] == "norm_gain" and config.norm["name"] == "rmsnorm":
            other.set_submodule(their.removesuffix(".weight"), ExactNorm(value))
        else:
            other.get_parameter(their).data = value.clone()
    return other


def loss(logits: Tensor, batch: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 17, 64])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-9)], ids=str)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_and_gradients_equal_those_of_transformers(
    name: str, dtype: torch.dtype, tolerance: float, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # BLOOM and Gemma 2 ask for an fp32 softmax whatever the dtype.
    monkeypatch.setattr(F, "softmax", lambda x, dim=-1, dtype=None: torch.softmax(x, dim))
    architecture = ARCHITECTURES[name]
    config, model = ours(architecture)
    other = theirs(architecture, config, model).to(dtype)
    model, batch = model.to(dtype), tokens(2, length)

    logits, expected = model(batch).logits, other(batch).logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=tolerance)
    loss(logits, batch).backward()
    loss(expected, batch).backward()
    for their, of_ours in names_of(architecture, config.shape).items():
        gradient = joined([model.get_parameter(name).grad for name in of_ours], config.shape)
        torch.testing.assert_close(
            gradient,
            other.get_parameter(their).grad,
            rtol=0,
            atol=tolerance,
            msg=lambda text, their=their: f"{their}: {text}",
        )
