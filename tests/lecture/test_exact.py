"""Computed claims: every check holds, the helpers agree with closed forms known elsewhere, and broken code
is caught.
"""

import itertools
import json
import math

import pytest
import scipy.stats
import torch

from lab.config.strict import ConfigError, plain
from lab.lecture.exact import (
    cost,
    heads_and_patterns,
    inference,
    measured_claim,
    measuring,
    models,
    norms,
    parallelism,
    speculation,
    survey,
    timing,
    verify,
)
from lab.lecture.exact.check import equal, same
from lab.lecture.exact.measured_claim import MeasuredTable, Measurement
from lab.store import exact_check
from lab.store.files import dumps
from tests.paths import ROOT

pytestmark = pytest.mark.slow

RESULTS = ROOT / "results"
SLOW = ("spec-greedy-lossless", "spec-sampling-lossless")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def records():
    return verify.verify()


def test_every_check_holds(records):
    assert [r for r in records if not r.holds] == []
    assert len({r.claim for r in records}) >= 34
    assert all(
        set(plain(r)) == {"claim", "check", "expected", "measured", "holds", "note", "notes"} for r in records
    )


def test_the_committed_record_is_what_the_code_computes(records):
    """Run `lab verify-exact` and commit results/exact.jsonl where this fails."""

    def kept(record):  # measured numbers may differ in a last digit between machines
        return record.claim, record.check, record.expected, record.holds, record.notes

    assert list(map(kept, exact_check.load(RESULTS))) == list(map(kept, records))


def test_what_is_written_is_read_back_and_written_alike(tmp_path):
    committed = (RESULTS / "exact.jsonl").read_bytes()
    assert exact_check.save(exact_check.load(RESULTS), tmp_path).read_bytes() == committed
    measured = sorted((RESULTS / "measured").glob("*.json"))
    assert len(measured) >= 6
    for path in measured:
        assert measured_claim.save(measured_claim.load(path), tmp_path).read_bytes() == path.read_bytes()


def test_a_record_with_another_key_is_refused_by_name(tmp_path):
    line = json.loads((RESULTS / "exact.jsonl").read_text().splitlines()[0])
    (tmp_path / "exact.jsonl").write_text(dumps(line | {"hold": True}) + "\n")
    with pytest.raises(ConfigError, match='exact.jsonl, line 1: hold: unknown key. Did you mean "holds"'):
        exact_check.load(tmp_path)
    record = json.loads((RESULTS / "measured/depth-latency-cpu.json").read_text())
    del record["provenance"]["device"]
    (tmp_path / "depth.json").write_text(dumps(record))
    with pytest.raises(ConfigError, match="depth.json: provenance.device: must be given"):
        measured_claim.load(tmp_path / "depth.json")


def test_the_same_code_gives_the_same_bytes(records):
    cheap = [name for name in verify.claims() if name not in SLOW]
    again = {dumps(plain(r)) for r in verify.verify(cheap)}
    assert again == {dumps(plain(r)) for r in records if r.claim in cheap}


def test_what_the_notes_print_wrong_is_told_apart(records):
    refuted = {r.claim for r in records if r.notes == "fails"}
    assert refuted == {
        "rms-ln-identities",
        "serial-printed-formula",
        "ffn-gated-1p5h",
        "pos-permutation",
        "sine-definition",
        "zloss-shift-identity",
        "spec-greedy-lossless",
        "gqa-resource-type",
        "swa-receptive-field",
    }


def test_a_wrong_formula_in_the_model_fails_its_check(monkeypatch):
    monkeypatch.setattr(norms.RMSNorm, "forward", lambda self, x: x / x.norm(dim=-1, keepdim=True))
    assert not all(check.holds for check in norms.identities())


def test_a_wrong_position_in_cached_decoding_fails_its_check(monkeypatch):
    monkeypatch.setattr(inference.CachedDecoder, "_padded", lambda self, x: x)
    failed = {check.check.partition(":")[0] for check in inference.kv_cache() if not check.holds}
    assert {"rope", "learned", "sine"} <= failed and "none" not in failed


def test_a_wrong_token_kept_after_right_ones_fails_its_check(monkeypatch):
    true = speculation._kept

    def careless(drafted, wanted, *, first):
        kept = true(drafted, wanted, first=first)
        return drafted[: len(kept)] if first + 1 < len(kept) <= len(drafted) else kept

    monkeypatch.setattr(speculation, "_kept", careless)
    failed = [check.check for check in speculation.greedy() if not check.holds]
    assert len(failed) == 1 and "every third place" in failed[0]


def test_an_unknown_claim_is_named(capsys):
    with pytest.raises(ConfigError, match='Did you mean "rms-ln-identities"'):
        verify.verify(["rms-ln-identity"])


def test_the_command_fails_when_a_check_does(monkeypatch, tmp_path, capsys):
    from lab import cli
    from lab.commands import places

    monkeypatch.setattr(places, "RESULTS", tmp_path)
    monkeypatch.setattr(verify, "claims", lambda: {"a": lambda: [equal("one is two", 2, 1)]})
    assert cli.main(["verify-exact"]) == 1
    assert json.loads((tmp_path / "exact.jsonl").read_text())["holds"] is False
    monkeypatch.setattr(verify, "claims", lambda: {"a": lambda: [equal("one is one", 1, 1)]})
    assert cli.main(["verify-exact"]) == 0


def test_rounding_errors_stay_out_of_the_record():
    one = torch.ones(3, dtype=torch.float64)
    assert same("x", one, one).measured == same("x", one, one + 1e-15).measured
    assert not same("x", one, one + 1e-3).holds


def test_wilson_interval_of_a_half():
    low, high = survey.wilson(10, 20)
    expected = scipy.stats.binomtest(10, 20).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_published_shapes_are_those_of_their_papers():
    models = {model.model: model for model in survey.table()}
    gpt3, t5, palm = models["GPT-3 175B"], models["T5 11B"], models["PaLM 540B"]
    assert (gpt3.d_model, gpt3.layers) == (12288, 96)  # Brown et al. 2020, table 2.1
    assert (t5.d_ff, t5.heads) == (65536, 128)  # Raffel et al. 2019, section 3.7
    assert palm.heads * palm.head_dim == 12288  # Chowdhery et al. 2022, table 1
    assert all(model.d_model % model.heads == 0 or model.head_dim for model in models.values())
    assert sorted(model.year for model in models.values()) == [model.year for model in models.values()]


def test_operation_shares_of_the_profiled_layer():
    """Ivanov et al. 2021, table 1: 99.80 %, 0.17 %, 0.03 % by their way of counting."""
    shares = norms.operation_shares(rows=8, length=512, d_model=1024, heads=16, d_ff=4096)
    assert shares.products == pytest.approx(0.998, abs=0.004)
    assert shares.normalising == pytest.approx(0.0017, abs=0.001)
    assert shares.products + shares.normalising + shares.elementwise == pytest.approx(1)


def test_a_fused_kernel_hides_what_happens_to_scores():
    shares = norms.operation_shares(rows=1, length=512, d_model=1024, heads=16, d_ff=4096, fused=True)
    products = 512 * 2 * (4 * 1024**2 + 2 * 1024 * 4096) + 4 * 512**2 * 1024
    scores, norm, rest = 8 * 16 * 512**2, 16 * 512 * 1024, 512 * (9 * 1024 + 9 * 4096)
    total = products + scores + norm + rest
    assert shares.products == pytest.approx((products + scores) / total)
    assert (shares.normalising, shares.elementwise) == pytest.approx((norm / total, rest / total))


def test_decoding_counts_every_product():
    """Four projections of b d rows a step, of which two have g / h of the width, and two products with t
    keys.
    """
    b, n, d, h, g = 3, 10, 24, 6, 2
    operations, moved = inference.every_decoding_product(b, n, d, h, g)
    assert operations == 2 * b * n * d * d * (h + g) // h + b * d * n * (n + 1)
    cache = 2 * b * g * (d // h) * n * (n + 1) // 2
    weights = n * d * d * 2 + 2 * n * d * g * (d // h)
    activations = n * b * (4 * d + 2 * (d + g * (d // h)) + 2 * d)
    scores = 2 * b * h * n * (n + 1) // 2 + 2 * b * h * n * (n + 1) // 2
    assert moved == cache + weights + activations + scores


def test_counted_products_are_those_of_torch():
    operations, _ = inference.every_product(2, 16, 32, 4)
    x, w = torch.randn(2, 16, 32), torch.randn(32, 32)
    q = torch.randn(2, 4, 16, 8)
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        for _ in range(4):
            x @ w
        (q @ q.transpose(-1, -2)) @ q
    assert counter.get_total_flops() == 2 * operations


@pytest.mark.parametrize(("ranks", "size"), [(2, 8), (4, 12), (3, 9)])
def test_ring_all_reduce(ranks, size):
    parts = [
        torch.randn(size, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)
        for rank in range(ranks)
    ]
    summed, sent = parallelism.ring_all_reduce(parts)
    assert all(torch.allclose(part, torch.stack(parts).sum(0)) for part in summed)
    assert sent == 2 * (ranks - 1) * size // ranks


def test_one_stage_has_no_bubble():
    assert parallelism.pipeline_bubble(1, 7) == 0
    assert parallelism.pipeline_bubble(4, 1) == 0.75


def test_strided_pattern_by_hand():
    local, far = heads_and_patterns.strided(6, 2)
    assert (local | far).int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 0, 0],
        [1, 0, 1, 1, 1, 0],
        [0, 1, 0, 1, 1, 1],
    ]


def test_one_round_of_speculation_is_a_distribution():
    p, q = speculation._tables(3), speculation._tables(4)
    ends = speculation._rounds(p, q, (), ahead=2)
    assert sum(ends.values()) == pytest.approx(1)
    lengths = {len(end) for end in ends}
    assert lengths == {1, 2, 3}


def test_a_drafter_like_the_target_is_always_accepted():
    p = speculation._tables(3)
    ends = speculation._rounds(p, p, (), ahead=2)
    assert sum(share for end, share in ends.items() if len(end) == 3) == pytest.approx(1)


def test_the_interval_of_a_median_is_that_of_the_binomial():
    for n in (6, 9, 15, 31):
        rank = timing.median_rank(n)
        outside = 2 * scipy.stats.binom.cdf(rank, n, 0.5)
        assert outside <= 0.05 < 2 * scipy.stats.binom.cdf(rank + 1, n, 0.5)
    with pytest.raises(ValueError, match="take 6 or more"):
        timing.median_rank(5)


def test_ratios_pair_neighbours_whatever_the_order(monkeypatch):
    """A machine that slows down tenfold midway changes no ratio."""
    clock = itertools.count()

    def seconds(compute, device):
        return compute() * (10 if next(clock) > 20 else 1)

    monkeypatch.setattr(timing, "seconds", seconds)
    ratio = timing.compare(lambda: 3.0, lambda: 2.0, pairs=15)
    assert (ratio.median, ratio.low, ratio.high) == (1.5, 1.5, 1.5)


def test_acceptance_is_the_overlap():
    p, q = speculation._tables(1), speculation._tables(2)
    accepted = sum(share for end, share in speculation._rounds(p, q, (), ahead=1).items() if len(end) == 2)
    assert accepted == pytest.approx(1 - 0.5 * float((p(()) - q(())).abs().sum()))  # 1 - total variation


def test_xiongs_lemma_for_one_post_norm_layer():
    """E|x|^2 = 3d/2 before the second norm; truncated weights lose 5 % of the feed-forward half."""
    from lab.lecture.exact import initial

    assert initial.residual("post", 1, 0)[0] == pytest.approx(1.5, rel=0.06)


def test_outcomes_of_timed_ratios():
    from lab.lecture.exact.cost import judged

    def ratio(low, high):
        return timing.Ratio(31, (low + high) / 2, low, high, 1.0, 1.0)

    assert judged([ratio(1.05, 1.1), ratio(1.01, 1.2)]) == "reproduced"
    assert judged([ratio(0.9, 0.95), ratio(0.8, 0.99)]) == "contradicted"
    assert judged([ratio(0.99, 1.01)]) == "too small to matter"
    assert judged([ratio(0.9, 1.1)]) == "inconclusive"
    assert judged([ratio(0.9, 0.95), ratio(1.05, 1.1)]) == "inconclusive"


@pytest.mark.parametrize("claim", ["rms-vs-ln-speed", "parallel-speed", "depth-latency"])
def test_every_timed_ratio_is_measured(claim, monkeypatch):
    """With one call of each side in place of 31: its table has a row a comparison and its parts follow the
    ratios.
    """

    def compare(first, second, *, device):
        return timing.Ratio(1, 1.5, 1.4, 1.6, timing.seconds(first, device), timing.seconds(second, device))

    monkeypatch.setattr(cost, "compare", compare)
    found = cost.CLAIMS[claim]("cpu")
    assert all(len(row) == len(found.table.header) for row in found.table.rows)
    assert found.outcome == "reproduced" and all(part.holds for part in found.parts)


@pytest.mark.parametrize("fused", [False, True])
def test_the_timed_parallel_block_is_the_model_s_own(fused):
    shape = dict(
        d_model=64, num_layers=2, num_heads=2, head_dim=32, d_ff=160, vocab_size=64, context_length=32
    )
    own = models.model(models.run_config("block=parallel", **shape), dtype=torch.float64)
    serial = models.model(models.run_config(**shape), dtype=torch.float64)
    for theirs, ours in zip(own.blocks, serial.blocks, strict=True):
        ours.attention.load_state_dict(theirs.attention.state_dict())
        ours.ffn.load_state_dict(theirs.ffn.state_dict())
        ours.attention_placement.load_state_dict(theirs.placement.state_dict())
    x = y = torch.randn(2, 32, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for block in own.blocks:
        y = block(y, own.position, drop=lambda t, site: t, diagnostics=False)[0]
    timed = cost.ParallelBlocks(serial.blocks, fused=fused)(x, serial.position)
    torch.testing.assert_close(timed, y)


def test_measured_claims_and_their_records(monkeypatch, tmp_path):
    found = Measurement("reproduced", (), MeasuredTable((), ()), n="1", size="s", confounds=())
    monkeypatch.setattr(measuring, "claims", lambda: {"a": ("cost", lambda device: found)})
    (record,) = measuring.measure([])
    assert record.provenance.device_kind == "cpu" and record.core_minutes >= 0
    path = measured_claim.save(record, tmp_path)
    assert path == tmp_path / "measured" / "a-cpu.json"
    assert json.loads(path.read_text())["claim"] == "a"


def test_every_pair_of_notes_and_checks_is_unique(records):
    pairs = [(r.claim, r.check) for r in records]
    assert len(pairs) == len(set(pairs))


def test_break_even_is_leviathans():
    """Corollary 3.9: some draft length gains exactly when a > c."""
    for a, c in itertools.product((0.1, 0.5, 0.9), (0.05, 0.45, 0.95)):
        gain = max(speculation._speed_up(a, g, c) for g in range(1, 30))
        assert (gain > 1) == (a > c)
    assert speculation._speed_up(0.5, 1, 0.0) == pytest.approx(1.5) and math.isfinite(gain)
