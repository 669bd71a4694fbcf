"""Positions against loops written from the papers, and against transformers where it has them."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom import modeling_bloom
from transformers.models.t5.modeling_t5 import T5Attention

from lab.config.strict import ConfigError
from lab.model.attention import SelfAttention
from lab.model.bias import VARIANTS as BIASES
from lab.model.initializer import initialize
from lab.model.pattern import LayerRule
from lab.model.position import VARIANTS, Position, alibi_slopes
from tests.tiny_model import INIT, SHAPE, build, choice, tiny, tokens

T = SHAPE.context_length


def made(name: str, shape=SHAPE, **changes) -> Position:
    parameters = choice("position", name) | changes
    del parameters["name"]
    position = VARIANTS[name](shape, **parameters)
    initialize(position, init=INIT, seed=0)
    return position


def noise(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("heads_of_keys", [None, 1])
def test_relative_vectors_of_keys_and_values_are_those_of_shaw(layer: int, heads_of_keys: int | None) -> None:
    clip, shape = 4, dataclasses.replace(SHAPE, num_kv_heads=heads_of_keys)
    model, x = (
        build(tiny(position={"name": "relative", "max_distance": clip}, shape=shape)).double(),
        noise(T, 32),
    )
    position, one = model.position, model.blocks[layer].attention
    vectors = {side: getattr(position.layers[layer], side) for side in ("keys", "values")}
    heads = []
    for h in range(3):
        rows = slice(8 * h, 8 * h + 8)
        shared = rows if heads_of_keys is None else slice(0, 8)
        q, k, v = x @ one.q.weight[rows].T, x @ one.k.weight[shared].T, x @ one.v.weight[shared].T
        z = []
        for i in range(T):
            distance = [min(i - j, clip) for j in range(i + 1)]
            e = [(q[i] @ (k[j] + vectors["keys"][distance[j]])) / math.sqrt(8) for j in range(i + 1)]
            alpha = torch.stack(e).softmax(0)
            z.append(sum(alpha[j] * (v[j] + vectors["values"][distance[j]]) for j in range(i + 1)))
        heads.append(torch.stack(z))
    expected = torch.cat(heads, -1) @ one.out.weight.T
    y, _ = one(x[None], position, diagnostics=False)
    torch.testing.assert_close(y[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (6, 12), (8, 100), (2, 5)])
def test_buckets_are_those_of_t5s_decoder(num_buckets: int, max_distance: int) -> None:
    position = made("t5", num_buckets=num_buckets, max_distance=max_distance)
    distance = torch.arange(600)
    expected = T5Attention._relative_position_bucket(
        -distance, bidirectional=False, num_buckets=num_buckets, max_distance=max_distance
    )
    assert torch.equal(position.bucket(distance), expected)
    with torch.no_grad():
        position.weight.copy_(noise(num_buckets, 3))
    bias = position.bias(noise(1, 3, T, 8), layer=0)
    for i in range(T):
        for j in range(i + 1):
            assert torch.equal(bias[:, i, j], position.weight[expected[i - j]])


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 9, 12, 16, 20, 33])
def test_slopes_are_those_of_bloom_for_any_number_of_heads(heads: int) -> None:
    expected = modeling_bloom._get_alibi_slopes(heads, torch.device("cpu"))
    torch.testing.assert_close(torch.tensor(alibi_slopes(heads)), expected, rtol=1e-6, atol=0)


def test_alibi_falls_by_the_slope_a_token() -> None:
    # Press et al. 2021, section 3: for 8 heads 1/2, 1/4, ..., 1/256.
    assert alibi_slopes(8) == [2.0**-h for h in range(1, 9)]
    bias = made("alibi", dataclasses.replace(SHAPE, num_heads=8)).bias(noise(1, 8, 5, 8), layer=0)
    assert bias[2, 4].tolist() == [-4 / 8, -3 / 8, -2 / 8, -1 / 8, 0]


def test_a_fraction_of_the_channels_is_rotated_and_the_rest_is_left() -> None:
    q, k = noise(1, 3, T, 8), noise(1, 1, T, 8)
    partial = made("rope_partial", rotary_fraction=0.5).rotate(q, k)
    whole = made("rope", dataclasses.replace(SHAPE, head_dim=4)).rotate(q[..., :4], k[..., :4])
    for turned, rotated, given in zip(partial, whole, (q, k), strict=True):
        assert torch.equal(turned[..., :4], rotated) and torch.equal(turned[..., 4:], given[..., 4:])
    torch.testing.assert_close(
        made("rope_partial", rotary_fraction=1.0).rotate(q, k), made("rope").rotate(q, k)
    )
    with pytest.raises(ConfigError, match="rotates 3 of 8 channels; .* Use one of 0.25, 0.5, 0.75, 1"):
        made("rope_partial", rotary_fraction=0.4)


def test_interpolated_positions_are_whole_ones_divided_by_the_scale() -> None:
    q, k = noise(1, 3, 1, 8).expand(1, 3, 96, 8), noise(1, 3, 1, 8).expand(1, 3, 96, 8)
    long = dataclasses.replace(SHAPE, context_length=96)
    stretched, plain = (
        made("rope_interpolation", long, scale=4.0).rotate(q, k),
        made("rope", long).rotate(q, k),
    )
    torch.testing.assert_close(stretched[0][..., ::4, :], plain[0][..., :24, :], rtol=0, atol=1e-6)
    assert not torch.allclose(stretched[0][..., 2, :], plain[0][..., 2, :], atol=1e-2)


@pytest.mark.parametrize("scale", [2.0, 4.0, 8.0])
def test_frequencies_for_longer_contexts_are_those_of_transformers(scale: float) -> None:
    def theirs(kind: str, length: int, factor: float) -> Tensor:
        config = LlamaConfig(
            hidden_size=24,
            num_attention_heads=3,
            head_dim=8,
            max_position_embeddings=T,
            rope_parameters={"rope_type": kind, "rope_theta": 10000.0, "factor": factor},
        )
        return ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=length)[0]

    torch.testing.assert_close(
        made("rope_interpolation", scale=scale).frequencies, theirs("linear", T, scale)
    )
    # Their base grows with the length of the row: at factor 1 it is theta (length / trained length)^(d / (d -
    # 2)).
    ntk = made("rope_ntk", scale=scale).frequencies
    torch.testing.assert_close(ntk, theirs("dynamic", int(scale * T), 1.0))
    plain = made("rope").frequencies
    torch.testing.assert_close(ntk[0], plain[0])
    torch.testing.assert_close(ntk[-1], plain[-1] / scale)


@pytest.mark.parametrize("name", sorted(VARIANTS))
@torch.no_grad()
def test_positions_beyond_the_trained_length_are_defined_or_refused(name: str) -> None:
    model, batch = build(tiny(position=name)).double(), tokens(2, 4 * T)
    before = model(batch[:, :T]).logits
    if not model.position.any_length:
        with pytest.raises(ConfigError, match="position = learned: has 24 trained positions"):
            model.extend(4 * T)
        assert torch.equal(model(batch[:, :T]).logits, before)
        return
    model.extend(4 * T)
    longer = tiny(position=name, shape=dataclasses.replace(SHAPE, context_length=4 * T))
    trained_there = build(longer).double()
    trained_there.load_state_dict(model.state_dict())
    logits = model(batch).logits
    assert torch.equal(logits, trained_there(batch).logits) and logits.isfinite().all()
    torch.testing.assert_close(logits[:, :T], before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_bf16_autocast_stays_near_fp32_and_has_gradients(name: str) -> None:
    model, batch = build(tiny(position=name)), tokens(2, T)
    exact = model(batch).logits
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(batch).logits
    # bf16 has a relative precision of 2^-8, and the path is about a dozen operations deep.
    assert (rounded - exact).norm() < 12 * 2**-8 * exact.norm()
    rounded.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_learned_positions_alone_end_where_training_did() -> None:
    assert {name for name, variant in VARIANTS.items() if not variant.any_length} == {"learned"}


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("t5", {"num_buckets": 1}, "position.num_buckets = 1: must be from 2 to 255"),
        ("t5", {"num_buckets": 256}, "position.num_buckets = 256"),
        ("relative", {"max_distance": 0}, "position.max_distance = 0: must be 1 or more"),
        ("rope_partial", {"rotary_fraction": 1.5}, "position.rotary_fraction = 1.5"),
        ("rope", {"theta": 0.0}, "base \\(theta\\) of 0 has no angles"),
        ("rope_interpolation", {"scale": 0.0}, "position.scale = 0: must be greater than 0"),
    ],
)
def test_parameters_without_a_meaning_are_refused(name: str, changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(name, **changes)


@pytest.mark.parametrize("head_dim", [12, 20, 28, 36, 96, 130])
def test_every_fraction_that_is_suggested_rotates_what_it_says(head_dim: int) -> None:
    """Six digits rounded down, as 0.333333 of 12 channels, rotate one channel less."""
    shape = dataclasses.replace(SHAPE, head_dim=head_dim)
    with pytest.raises(ConfigError) as refused:
        made("rope_partial", shape, rotary_fraction=0.0)
    suggested = str(refused.value).partition("Use one of ")[2].rstrip(".").split(", ")
    rotated = [made("rope_partial", shape, rotary_fraction=float(text)).channels for text in suggested]
    assert rotated == list(range(2, head_dim + 1, 2))


def test_ntk_needs_more_than_one_pair_of_channels() -> None:
    with pytest.raises(ConfigError, match="needs head size 4 or more"):
        made("rope_ntk", dataclasses.replace(SHAPE, head_dim=2))


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 8, generator=generator, dtype=torch.float64)
    q, k = made("rope", dataclasses.replace(SHAPE, context_length=64)).rotate(
        q.expand(1, 1, 64, 8), k.expand(1, 1, 64, 8)
    )
    scores = (q @ k.transpose(-2, -1))[0, 0]
    for distance in range(-63, 64):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=5e-5)
    assert scores[:, 0].std() > 0.1
    torch.testing.assert_close(q.norm(dim=-1), q[..., :1, :].norm(dim=-1).expand(1, 1, 64), rtol=0, atol=1e-6)


def test_a_position_bias_is_added_to_the_scores() -> None:
    class Distance(Position):
        """Head h subtracts 2^-h per token of distance: ALiBi, Press et al. 2021 (2108.12409)."""

        def bias(self, q: Tensor, *, layer: int) -> Tensor:
            distance = torch.arange(q.shape[-2])[:, None] - torch.arange(q.shape[-2])
            return -distance * 0.5 ** torch.arange(SHAPE.num_heads)[:, None, None]

    attention = SelfAttention(
        SHAPE,
        layer=0,
        rule=LayerRule(),
        biases=BIASES["none"],
        qk_norm=False,
        qk_norm_joint=False,
        softcap=None,
    )
    initialize(attention, init=tiny().init, seed=0)
    x = torch.randn(2, 9, SHAPE.d_model, generator=torch.Generator().manual_seed(0))
    q, k, v = (
        F.linear(x, getattr(attention, part).weight).view(2, 9, 3, 8).transpose(1, 2) for part in "qkv"
    )
    mask = Distance().bias(q, layer=0) + torch.full((9, 9), -math.inf).triu(1)
    expected = F.linear(
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2),
        attention.out.weight,
    )
    torch.testing.assert_close(attention(x, Distance(), diagnostics=False)[0], expected)


def test_every_shipped_position_is_silent_where_it_has_no_say() -> None:
    q, k, x = torch.randn(3, 1, 3, 5, 8, generator=torch.Generator().manual_seed(0)).unbind(0)
    for name in VARIANTS:
        parameters = choice("position", name)
        del parameters["name"]
        variant, weights = VARIANTS[name](SHAPE, **parameters), q.new_ones(1, 3, 5, 5)
        acts = {hook for hook in ("embed", "rotate", "bias", "read") if variant.acts(hook)}
        expected = (
            {"embed"} if name in {"learned", "sine"} else {"rotate"} if name.startswith("rope") else {"bias"}
        )
        assert acts == {"relative": {"bias", "read"}, "none": set()}.get(name, expected)
        if "embed" not in acts:
            assert variant.embed(x) is x
        if "rotate" not in acts:
            assert variant.rotate(q, k) == (q, k)
        if "bias" not in acts:
            assert variant.bias(q, layer=0) is None
        if "read" not in acts:
            assert variant.read(weights, layer=0) is None
