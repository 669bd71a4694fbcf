"""Dropout as a function of its key, in a model and by itself."""

import dataclasses

import pytest
import scipy.stats
import torch
from torch import Tensor

from lab.config.schema import Regularization
from lab.model import transformer
from lab.model.dropout import dropout
from tests.tiny_model import STABILITY, build, tiny, tokens

DROPPING = Regularization(dropout=0.3, weight_decay=0.0, label_smoothing=0.0)


def test_dropout_is_a_function_of_seed_step_and_site() -> None:
    x = torch.ones(400, 50)
    base = dropout(x, rate=0.2, key=(3, 7), site="ffn/1")
    assert torch.equal(base, dropout(x, rate=0.2, key=(3, 7), site="ffn/1"))
    for other in (
        dropout(x, rate=0.2, key=(4, 7), site="ffn/1"),
        dropout(x, rate=0.2, key=(3, 8), site="ffn/1"),
        dropout(x, rate=0.2, key=(3, 7), site="ffn/2"),
    ):
        # Independent masks agree in 0.8^2 + 0.2^2 of the places.
        assert (base == other).double().mean().item() == pytest.approx(0.68, abs=0.02)
    assert set(base.unique().tolist()) == {0.0, 1.25}
    assert scipy.stats.binomtest(int((base == 0).sum()), base.numel(), 0.2).pvalue > 1e-3


def test_dropout_is_repeated_by_its_key_and_off_in_evaluation() -> None:
    dropping = build(tiny(regularization=DROPPING))
    batch, state = tokens(2, 12), torch.get_rng_state()
    with torch.no_grad():
        assert torch.equal(
            dropping(batch, dropout_key=(0, 5)).logits, dropping(batch, dropout_key=(0, 5)).logits
        )
        assert not torch.allclose(
            dropping(batch, dropout_key=(0, 5)).logits, dropping(batch, dropout_key=(0, 6)).logits
        )
        assert torch.equal(dropping(batch).logits, build(tiny())(batch).logits)
    assert torch.equal(state, torch.get_rng_state())


def test_every_place_that_drops_has_a_site_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = []

    def recording(x: Tensor, *, rate: float, key: tuple[int, int] | None, site: str) -> Tensor:
        sites.append((site, rate, key))
        return x

    monkeypatch.setattr(transformer, "dropout", recording)
    build(tiny(regularization=DROPPING))(tokens(1, 4), dropout_key=(2, 9))
    expected = ["embedding", "attention/0", "ffn/0", "attention/1", "ffn/1"]
    assert sites == [(site, 0.3, (2, 9)) for site in expected]


@pytest.mark.slow
def test_the_model_compiles_into_one_graph_with_dropout() -> None:
    model = build(tiny(regularization=DROPPING, stability=dataclasses.replace(STABILITY, qk_norm=True)))
    compiled, batch = torch.compile(model, fullgraph=True, backend="eager"), tokens(2, 12)
    with torch.no_grad():
        for step in range(3):
            torch.testing.assert_close(
                compiled(batch, dropout_key=(0, step)).logits, model(batch, dropout_key=(0, step)).logits
            )
