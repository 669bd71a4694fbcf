"""How sub-layers are joined, scaled and started, against the papers' formulas over the model's own
sub-layers in float64.
"""

import dataclasses
import math
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

from lab.config.schema import RunConfig
from lab.model.transformer import Transformer
from tests.tiny_model import CONF, EMBEDDING, INIT, SHAPE, build, tiny, tokens

LAYERS = SHAPE.num_layers


def rms(x: Tensor, gain: Tensor, eps: float = 1e-5) -> Tensor:
    return x / ((x * x).mean(-1, keepdim=True) + eps).sqrt() * gain


def scrambled(config: RunConfig) -> Transformer:
    model, generator = build(config).double(), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, role in model.roles().items():
            if role == "norm_gain":
                gain = model.get_parameter(name)
                gain += 0.3 * torch.randn(gain.shape, generator=generator, dtype=torch.float64)
    return model


def written_out(model: Transformer, config: RunConfig, batch: Tensor) -> Tensor:
    w = dict(model.named_parameters())
    x = w["embedding.weight"][batch]
    for i, layer in enumerate(model.blocks):

        def attention(y: Tensor, layer: Any = layer) -> Tensor:
            return layer.attention(y, model.position, diagnostics=False)[0]

        def ffn(y: Tensor, layer: Any = layer) -> Tensor:
            return layer.ffn(y, diagnostics=False)[0]

        def gain(place: str, i: int = i) -> Tensor:
            return w[f"blocks.{i}.{place}.weight"]

        match config.block["name"], config.norm_placement["name"]:
            case "parallel", "pre":
                shared = rms(x, gain("placement.norm"))
                x = x + attention(shared) + ffn(shared)
            case "parallel_two_norms", "pre":
                x = (
                    x
                    + attention(rms(x, gain("attention_placement.norm")))
                    + ffn(rms(x, gain("ffn_placement.norm")))
                )
            case "parallel_two_norms", "output":
                x = (
                    x
                    + rms(attention(x), gain("attention_placement.norm"))
                    + rms(ffn(x), gain("ffn_placement.norm"))
                )
            case "serial", "deepnorm":
                alpha = (2 * LAYERS) ** 0.25
                x = rms(alpha * x + attention(x), gain("attention_placement.norm"))
                x = rms(alpha * x + ffn(x), gain("ffn_placement.norm"))
    x = x if config.norm_placement["name"] == "deepnorm" else rms(x, w["final_norm.weight"])
    return x @ w["head.weight"].T


@pytest.mark.parametrize(
    ("block", "placement"),
    [
        ("parallel", "pre"),
        ("parallel_two_norms", "pre"),
        ("parallel_two_norms", "output"),
        ("serial", "deepnorm"),
    ],
)
@torch.no_grad()
def test_the_stream_is_that_of_the_formulas(block: str, placement: str) -> None:
    config = tiny(block=block, norm_placement=placement)
    model, batch = scrambled(config), tokens(2, 13)
    torch.testing.assert_close(model(batch).logits, written_out(model, config, batch), rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_norm_without_parameters_is_layernorm_of_gain_one_and_bias_zero() -> None:
    plain, affine = (build(tiny(norm=norm)).double() for norm in ("nonparametric", "layernorm"))
    assert torch.equal(plain(tokens(2, 13)).logits, affine(tokens(2, 13)).logits)


@torch.no_grad()
def test_embeddings_scaled_normed_and_read_by_the_head_as_they_stand() -> None:
    config = tiny(embedding=dataclasses.replace(EMBEDDING, tied=True, scaled=True, head_scaled=False))
    model, batch = build(config).double(), tokens(2, 13)
    table, plain = model.embedding.weight, build(tiny()).double()
    plain.load_state_dict(
        model.state_dict() | {"embedding.weight": table * math.sqrt(SHAPE.d_model), "head.weight": table}
    )
    torch.testing.assert_close(model(batch).logits, plain(batch).logits, rtol=0, atol=1e-12)

    normed = build(tiny(embedding=dataclasses.replace(EMBEDDING, normed=True))).double()
    gain = normed.embedding_norm.weight
    gain += 0.3 * torch.randn(gain.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    state = {key: value for key, value in normed.state_dict().items() if key != "embedding_norm.weight"}
    plain.load_state_dict(state | {"embedding.weight": rms(normed.embedding.weight, gain)})
    torch.testing.assert_close(normed(batch).logits, plain(batch).logits, rtol=0, atol=1e-12)


# --- starts ---

WIDE = dataclasses.replace(SHAPE, d_model=96, d_ff=64)
MATRICES = {"linear", "value", "residual", "head"}


@pytest.mark.parametrize(
    ("option", "small"),
    [
        ("glorot_normal", None),
        ("glorot_uniform", None),
        ("normal", 0.02),
        ("gpt2", 0.02),
    ],
)
def test_every_start_is_its_distribution(option: str, small: float | None) -> None:
    init = dataclasses.replace(INIT, **read("init", option))
    model = build(tiny(shape=WIDE, init=init, position="learned"))
    for name, role in model.roles().items():
        value = model.get_parameter(name).detach()
        if role not in MATRICES | {"embedding", "position"}:
            continue
        std = math.sqrt(2 / sum(value.shape)) if small is None else small
        if role == "residual" and option == "gpt2":
            std /= math.sqrt(2 * LAYERS)
        if role in {"embedding", "position"}:
            std = init.embedding_std
        expected = {
            "glorot_normal": scipy.stats.truncnorm(-3, 3, scale=std),
            "glorot_uniform": scipy.stats.uniform(-math.sqrt(3) * std, 2 * math.sqrt(3) * std),
        }.get(option, scipy.stats.norm(scale=std))
        if option == "glorot_uniform" and role in {"embedding", "position"}:
            expected = scipy.stats.norm(scale=std)
        assert scipy.stats.kstest(value.flatten().numpy(), expected.cdf).pvalue > 1e-4, name


def test_deepnorm_starts_what_carries_values_smaller_and_scaled_embeddings_start_at_unit_size() -> None:
    plain, deep = build(tiny()), build(tiny(norm_placement="deepnorm"))
    beta = (8 * LAYERS) ** -0.25
    for name in deep.state_dict():
        carries = name.split(".")[-2] in {"v", "out", "up", "down"}
        expected = plain.state_dict()[name] * (beta if carries else 1.0)
        torch.testing.assert_close(deep.state_dict()[name], expected, rtol=1e-6, atol=0)
    scaled = build(tiny(shape=WIDE, embedding=dataclasses.replace(EMBEDDING, scaled=True)))
    read_first = []
    scaled.blocks[0].register_forward_pre_hook(lambda module, args: read_first.append(args[0]))
    scaled(tokens(8, 24))
    assert read_first[0].std().item() == pytest.approx(1.0, rel=0.03)


def read(group: str, option: str) -> dict[str, Any]:
    import yaml

    return yaml.safe_load((CONF / group / f"{option}.yaml").read_text())
