"""Counts against closed forms and torch's own FLOP counter; the matching solver against arithmetic."""

import dataclasses

import pytest
from torch.utils.flop_counter import FlopCounterMode

from lab.config.compose import Override, compose
from lab.config.strict import ConfigError
from lab.plan.budget import TrainingText, counts, resolve, shape
from lab.plan.matching import match
from tests.tiny_model import PAIRS, build, loss_of, tokens
from tests.tiny_run import tiny_run

CORPUS = TrainingText("fingerprint", bytes_per_token=4.0, train_tokens=10**6, tokenizer_hash="t")


def composed(*overrides):
    return compose([Override("size=nano"), *map(Override, overrides)])


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_flops_equal_torchs_counter(pair):
    """On the masked path, since the counter gives no FLOPs to a fused kernel on CPUs."""
    axis, name = pair
    run = tiny_run(
        **{axis: name}, stability=dataclasses.replace(tiny_run().stability, attention_softcap=50.0)
    )
    model = build(run)
    batch = tokens(2, run.shape.context_length + 1)
    with FlopCounterMode(display=False) as counter:
        loss_of(model, batch).backward()
    counted = counts(run)
    # Experts that are not chosen are computed too, but not counted.
    idle = counted.body_parameters - counted.active_parameters
    assert counter.get_total_flops() == pytest.approx(
        (counted.flops_per_token + 6 * idle) * 2 * run.shape.context_length, rel=1e-3
    )


def test_nano_has_the_parameters_that_arithmetic_gives():
    run = resolve(composed(), CORPUS)
    d, layers, d_ff, vocab = 96, 4, 256, 1024
    body = layers * (4 * d * d + 3 * d * d_ff + 2 * d) + d
    assert dataclasses.asdict(counts(run)) == {
        "parameters": body + 2 * vocab * d,
        "body_parameters": body,
        "embedding_parameters": 2 * vocab * d,
        "active_parameters": body,
        "kv_cache_bytes_per_token": 2 * layers * d * 4,
        "activation_bytes_per_token": 4 * (layers * (4 * d + 4 * d + 4 * d_ff) + 2 * d + vocab),
        "flops_per_token": 3 * (2 * (layers * (4 * d * d + 3 * d * d_ff) + vocab * d) + layers * 4 * 256 * d),
    }


def test_tied_embeddings_count_once_but_multiply():
    untied = tiny_run()
    tied = tiny_run(embedding=dataclasses.replace(untied.embedding, tied=True))
    shared = untied.shape.vocab_size * untied.shape.d_model
    assert counts(untied).parameters - counts(tied).parameters == shared
    assert counts(untied).flops_per_token == counts(tied).flops_per_token


@pytest.mark.parametrize(
    ("overrides", "heads", "head_dim", "d_ff"),
    [
        ([], 3, 32, 256),
        (["activation=gelu"], 3, 32, 384),
        (["ffn_ratio=2"], 3, 32, 192),
        (["heads=6"], 6, 16, 256),
        (["heads.head_dim=16"], 6, 16, 256),
        (["heads=6", "heads.head_dim=32"], 6, 32, 256),
    ],
)
def test_rules_resolve_to_the_shape(overrides, heads, head_dim, d_ff):
    resolved = shape(composed(*overrides))
    assert (resolved.num_heads, resolved.head_dim, resolved.d_ff) == (heads, head_dim, d_ff)


@pytest.mark.parametrize(
    ("aspect", "expected"), [(24, (96, 4)), (64, (128, 2)), (8, (64, 9)), (192, (192, 1))]
)
def test_aspect_keeps_twelve_l_d_squared(aspect, expected):
    resolved = shape(composed(f"aspect={aspect}"))
    assert (resolved.d_model, resolved.num_layers) == expected
    assert resolved.num_layers * resolved.d_model**2 == pytest.approx(4 * 96**2, rel=0.2)


@pytest.mark.parametrize(
    ("overrides", "steps"),
    [
        ([], 300),
        (["budget.amount=2048"], 2),
        (["budget=bytes", "budget.amount=8192"], 2),
        (["budget=flops", "budget.amount=1e12"], None),
    ],
)
def test_budgets_become_steps(overrides, steps):
    run = resolve(composed(*overrides), CORPUS)
    assert run.steps == (steps or round(1e12 / (counts(run).flops_per_token * 1024)))
    assert (run.rows, run.micro_rows) == (4, 4)


def test_a_budget_below_one_step_is_refused():
    with pytest.raises(ConfigError, match="less than one step"):
        resolve(composed("budget=bytes", "budget.amount=100"), CORPUS)


@pytest.mark.parametrize("ratio", [1, 4, 6, 32])
def test_width_is_solved_to_the_nearest_ratio_of_equal_body(ratio):
    config = composed("activation=gelu", f"ffn_ratio={ratio}", "heads.head_dim=16")
    target = counts(resolve(composed(), CORPUS)).body_parameters
    solved = match(config, resolve(config, CORPUS), hold="body_parameters", target=target, solve="width")
    d, layers = solved.d_model, 4
    body = layers * (4 * d * d + 2 * d * solved.d_ff + 2 * d) + d
    assert body == pytest.approx(target, rel=2e-3) and d % 16 == 0 and solved.num_heads * 16 == d
    ideal = (target / layers / (4 + 2 * ratio)) ** 0.5  # 4 d^2 + 2 r d^2 per layer
    assert abs(d - ideal) <= 16


def test_widths_that_heads_do_not_divide_are_passed_over():
    config = composed("heads=3")
    solved = match(config, resolve(config, CORPUS), hold="body_parameters", target=443_232, solve="width")
    assert solved.d_model == 96 and solved.d_ff == 256


def test_no_width_fits_a_tiny_target():
    config = composed()
    with pytest.raises(ConfigError, match="no width"):
        match(config, resolve(config, CORPUS), hold="body_parameters", target=100, solve="width")


def test_counting_allocates_no_weights():
    run = tiny_run(shape=dataclasses.replace(tiny_run().shape, d_model=8192, d_ff=65536))
    assert counts(run).parameters > 3e9


@pytest.mark.parametrize(
    ("name", "chosen", "shared"), [("moe", 2, 0), ("switch", 1, 0), ("deepseek_moe", 7, 1)]
)
def test_a_mixture_of_experts_costs_as_much_as_the_dense_layer_and_a_router(name, chosen, shared):
    dense, mixture = (resolve(composed(f"ffn={ffn}"), CORPUS) for ffn in ("dense", name))
    d, layers, experts = 96, 4, mixture.ffn["experts"]
    assert mixture.shape.d_ff == dense.shape.d_ff // (chosen + shared)
    network, router = 3 * d * mixture.shape.d_ff, experts * d
    counted, of_dense = counts(mixture), counts(dense)
    assert counted.active_parameters == of_dense.active_parameters + layers * router
    assert counted.flops_per_token == of_dense.flops_per_token + 6 * layers * router
    rest = of_dense.body_parameters - layers * 3 * d * dense.shape.d_ff
    assert counted.body_parameters == rest + layers * ((experts + shared) * network + router)


def test_an_arm_is_matched_in_active_parameters():
    target = counts(resolve(composed(), CORPUS)).active_parameters
    config = composed("ffn=moe", "ffn.experts=4", "ffn_ratio=1")
    solved = match(config, resolve(config, CORPUS), hold="active_parameters", target=target, solve="d_ff")
    matched = resolve(config, CORPUS, shape_=solved)
    assert counts(matched).active_parameters == pytest.approx(target, rel=2e-3)
    assert counts(matched).body_parameters > 1.3 * target


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["block=parallel", "norm_placement=post"],
            "block = parallel: .* Use norm_placement=pre or block=serial",
        ),
        (["block=parallel_two_norms", "norm_placement=deepnorm"], "no stream between them"),
        (["block=parallel", "norm_placement=double"], "one norm of the input"),
        (["ffn=moe", "ffn.top_k=9"], "ffn.top_k = 9: must be from 2 to ffn.experts 8"),
        (["ffn=moe", "ffn.top_k=1"], "teaches the router nothing. Use ffn=switch"),
        (["ffn=deepseek_moe", "ffn.top_k=32"], "from 1 to ffn.experts 31"),
    ],
)
def test_what_makes_no_sense_together_is_refused_when_it_is_planned(overrides, message):
    with pytest.raises(ConfigError, match=message):
        resolve(composed(*overrides), CORPUS)
