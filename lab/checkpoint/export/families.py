"""What do the architectures of Hugging Face transformers call things?

`FAMILIES` is the table: for each architecture its class, its config.json and its tensors. Which of them can
be a run is decided before (lab/checkpoint/export/features.py); here a run is known to be the architecture's
model.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from lab.checkpoint.export.pieces import Piece, by_head, joined, less_one, pairs_adjacent, same, transposed
from lab.config.schema import RunConfig
from lab.model import activation, pattern
from lab.model.published import Architecture
from lab.model.transformer import chosen

Settings = dict[str, object]  # what config.json says of a model


@dataclass(frozen=True)
class Family:
    """One architecture of transformers.

    name: of its class; config: what config.json says of a run; pieces: what becomes of a run's tensors.
    """

    name: str
    config: Callable[[RunConfig], Settings]
    pieces: Callable[[RunConfig], Iterator[Piece]]


PRE = {"attention_placement.norm": "input_layernorm", "ffn_placement.norm": "post_attention_layernorm"}
OUTPUT = {
    "attention_placement.norm": "post_attention_layernorm",
    "ffn_placement.norm": "post_feedforward_layernorm",
}
DOUBLE = {
    "attention_placement.input_norm": "input_layernorm",
    "attention_placement.output_norm": "post_attention_layernorm",
    "ffn_placement.input_norm": "pre_feedforward_layernorm",
    "ffn_placement.output_norm": "post_feedforward_layernorm",
}


def _llama(
    run: RunConfig,
    *,
    norms: dict[str, str] = PRE,
    norm: Callable[[str, str], Piece] = same,
    adjacent: bool = False,
) -> Iterator[Piece]:
    """The names that most architectures share.

    norms: our names of a layer's norms -> theirs; norm: how a gain is packed; adjacent: whether channels that
    rotate together stand side by side in theirs.
    """
    yield from (
        same("model.embed_tokens", "embedding"),
        same("lm_head", "head"),
        norm("model.norm", "final_norm"),
    )
    for i in range(run.shape.num_layers):
        here, there = f"blocks.{i}", f"model.layers.{i}"
        for ours, theirs in norms.items():
            yield norm(f"{there}.{theirs}", f"{here}.{ours}")
        for name, heads in (("q", run.shape.num_heads), ("k", run.shape.kv_heads)):
            packed = partial(pairs_adjacent, heads=heads) if adjacent else same
            yield packed(f"{there}.self_attn.{name}_proj", f"{here}.attention.{name}")
            yield same(f"{there}.self_attn.{name}_norm", f"{here}.attention.{name}_norm")
        yield same(f"{there}.self_attn.v_proj", f"{here}.attention.v")
        yield same(f"{there}.self_attn.o_proj", f"{here}.attention.out")
        for name in ("gate", "up", "down"):
            yield same(f"{there}.mlp.{name}_proj", f"{here}.ffn.{name}")
        yield same(f"{there}.mlp.gate", f"{here}.ffn.router")
        yield joined(
            f"{there}.mlp.experts.gate_up_proj", f"{here}.ffn.experts.gate", f"{here}.ffn.experts.up", dim=1
        )
        yield same(f"{there}.mlp.experts.down_proj", f"{here}.ffn.experts.down")


def _gpt2(run: RunConfig) -> Iterator[Piece]:
    yield from (same("transformer.wte", "embedding"), same("transformer.wpe", "position"))
    yield from (same("transformer.ln_f", "final_norm"), same("lm_head", "head"))
    for i in range(run.shape.num_layers):
        here, there = f"blocks.{i}", f"transformer.h.{i}"
        yield same(f"{there}.ln_1", f"{here}.attention_placement.norm")
        yield same(f"{there}.ln_2", f"{here}.ffn_placement.norm")
        yield transposed(f"{there}.attn.c_attn", *(f"{here}.attention.{name}" for name in "qkv"))
        yield transposed(f"{there}.attn.c_proj", f"{here}.attention.out")
        yield transposed(f"{there}.mlp.c_fc", f"{here}.ffn.up")
        yield transposed(f"{there}.mlp.c_proj", f"{here}.ffn.down")


def _neox(run: RunConfig, *, layers: str, attention: str, whole: dict[str, str]) -> Iterator[Piece]:
    """GPT-NeoX and BLOOM, which differ in what modules are called."""
    yield from (same(theirs, ours) for ours, theirs in whole.items())
    for i in range(run.shape.num_layers):
        here, there = f"blocks.{i}", f"{layers}.{i}"
        for ours, theirs in PRE.items():
            yield same(f"{there}.{theirs}", f"{here}.{ours}")
        fused = (f"{here}.attention.{name}" for name in "qkv")
        yield by_head(f"{there}.{attention}.query_key_value", *fused, heads=run.shape.num_heads)
        yield same(f"{there}.{attention}.dense", f"{here}.attention.out")
        yield same(f"{there}.mlp.dense_h_to_4h", f"{here}.ffn.up")
        yield same(f"{there}.mlp.dense_4h_to_h", f"{here}.ffn.down")


def _function(run: RunConfig) -> str | None:
    variant, _ = chosen("activation", activation.VARIANTS, run.activation)
    return variant.published


def _rope(run: RunConfig) -> Settings:
    parameters = {
        "rope_type": "default",
        "rope_theta": run.position["theta"],
        "partial_rotary_factor": run.position.get("rotary_fraction", 1.0),
    }
    return {"rope_parameters": parameters, "max_position_embeddings": run.shape.context_length}


def _layers(run: RunConfig) -> Settings:
    """Windows, and which layers have them; transformers asks for a width even where none has."""
    rules, parameters = chosen("pattern", pattern.VARIANTS, run.pattern)
    local = [rule.sees is not None for rule in rules(run.shape, **parameters)]
    return {
        "sliding_window": run.pattern.get("window", run.shape.context_length),
        "layer_types": ["sliding_attention" if windowed else "full_attention" for windowed in local],
    }


def _llama_config(run: RunConfig) -> Settings:
    s = run.shape
    biased = run.bias["name"] == "all"
    return {
        "hidden_size": s.d_model,
        "intermediate_size": s.d_ff,
        "num_hidden_layers": s.num_layers,
        "num_attention_heads": s.num_heads,
        "num_key_value_heads": s.kv_heads,
        "head_dim": s.head_dim,
        "hidden_act": _function(run),
        "rms_norm_eps": run.norm["eps"],
        "attention_bias": biased,
        "mlp_bias": biased,
        **_rope(run),
    }


def _mistral_config(run: RunConfig) -> Settings:
    return _llama_config(run) | {"sliding_window": run.pattern.get("window")}


def _mixtral_config(run: RunConfig) -> Settings:
    """Their balance loss pools all layers and isn't divided by top_k.

    It is equal to ours where experts are evenly used.
    """
    f = run.ffn
    return _mistral_config(run) | {
        "num_local_experts": f["experts"],
        "num_experts_per_tok": f["top_k"],
        "router_aux_loss_coef": f["balance"] * run.shape.num_layers / f["top_k"],
    }


def _gemma2_config(run: RunConfig) -> Settings:
    caps = run.stability
    return (
        _llama_config(run)
        | _layers(run)
        | {
            "hidden_activation": _function(run),
            "query_pre_attn_scalar": run.shape.head_dim,
            "attn_logit_softcapping": caps.attention_softcap,
            "final_logit_softcapping": caps.output_softcap,
        }
    )


def _cohere2_config(run: RunConfig) -> Settings:
    scale = run.shape.d_model**-0.5 if run.embedding.tied and run.embedding.head_scaled else 1.0
    return _llama_config(run) | _layers(run) | {"layer_norm_eps": run.norm["eps"], "logit_scale": scale}


def _gpt2_config(run: RunConfig) -> Settings:
    s = run.shape
    return {
        "n_positions": s.context_length,
        "n_embd": s.d_model,
        "n_layer": s.num_layers,
        "n_head": s.num_heads,
        "n_inner": s.d_ff,
        "activation_function": _function(run),
        "layer_norm_epsilon": run.norm["eps"],
        "embd_pdrop": run.regularization.dropout,
        "resid_pdrop": run.regularization.dropout,
        "attn_pdrop": 0.0,
    }


def _neox_config(run: RunConfig) -> Settings:
    return _llama_config(run) | {
        "layer_norm_eps": run.norm["eps"],
        "use_parallel_residual": run.block["name"] == "parallel_two_norms",
    }


def _bloom_config(run: RunConfig) -> Settings:
    s = run.shape
    return {
        "hidden_size": s.d_model,
        "n_layer": s.num_layers,
        "n_head": s.num_heads,
        "layer_norm_epsilon": run.norm["eps"],
        "seq_length": s.context_length,
    }


NEOX = {
    "embedding": "gpt_neox.embed_in",
    "final_norm": "gpt_neox.final_layer_norm",
    "head": "lm_head",
}
BLOOM = {
    "embedding": "transformer.word_embeddings",
    "embedding_norm": "transformer.word_embeddings_layernorm",
    "final_norm": "transformer.ln_f",
    "head": "lm_head",
}

FAMILIES: dict[Architecture, Family] = {
    "llama": Family("LlamaForCausalLM", _llama_config, _llama),
    "qwen2": Family("Qwen2ForCausalLM", _llama_config, _llama),
    "qwen3": Family("Qwen3ForCausalLM", _llama_config, _llama),
    "mistral": Family("MistralForCausalLM", _mistral_config, _llama),
    "mixtral": Family("MixtralForCausalLM", _mixtral_config, _llama),
    "olmo": Family("OlmoForCausalLM", _llama_config, _llama),
    "olmo2": Family("Olmo2ForCausalLM", _llama_config, partial(_llama, norms=OUTPUT)),
    "gemma2": Family("Gemma2ForCausalLM", _gemma2_config, partial(_llama, norms=DOUBLE, norm=less_one)),
    "cohere2": Family(
        "Cohere2ForCausalLM",
        _cohere2_config,
        partial(_llama, norms={"placement.norm": "input_layernorm"}, adjacent=True),
    ),
    "gpt2": Family("GPT2LMHeadModel", _gpt2_config, _gpt2),
    "gpt_neox": Family(
        "GPTNeoXForCausalLM",
        _neox_config,
        partial(_neox, layers="gpt_neox.layers", attention="attention", whole=NEOX),
    ),
    "bloom": Family(
        "BloomForCausalLM",
        _bloom_config,
        partial(_neox, layers="transformer.h", attention="self_attention", whole=BLOOM),
    ),
}
