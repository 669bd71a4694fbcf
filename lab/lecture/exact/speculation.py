"""Which statements about speculative decoding are identities?

Source: Leviathan et al. 2023 (2211.17192), algorithm 1 and eq. 1; Chen et al. 2023 (2302.01318). Drafts
and targets are tiny models of the project, or tables small enough that every path can be counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from lab.lecture.exact import models
from lab.lecture.exact.check import Check, Checks, at_least, at_most, close, equal, same

Text = tuple[int, ...]
Distribution = Callable[[Text], Tensor]  # text -> probabilities [V]
VOCABULARY = 3


@torch.no_grad()
def greedy() -> list[Check]:
    """The checks of spec-greedy-lossless: greedy text is the target's own whatever drafts it."""
    target = models.model(models.run_config(seed=1))
    prompt, length = models.tokens(1, 4)[0].tolist(), 20

    best = _argmax(target)

    plain = list(prompt)
    while len(plain) < length:
        plain.append(best(plain))

    drafters: dict[str, Callable[[Sequence[int]], int]] = {
        "the target itself": best,
        "a smaller model": _argmax(models.model(models.run_config(seed=2, num_layers=1))),
        "one that errs at every third place": lambda text: (
            best(text) if len(text) % 3 else 1 - min(best(text), 1)
        ),
        "a constant": lambda text: 7,
    }
    checks = []
    for name, draft in drafters.items():
        texts, calls = set(), []
        for ahead in range(1, 9):
            written, count = _speculate(target, draft, prompt, ahead=ahead, length=length)
            texts.add(tuple(written))
            calls.append(count)
        checks.append(
            equal(
                f"drafts of 1 to 8 tokens by {name}: texts unlike the target's own",
                0,
                len(texts - {tuple(plain)}),
                notes="holds",
                note=f"{calls[4]} calls of the target with 5 drafted, {length - 4} without",
            )
        )
    careless, _ = _speculate(target, lambda text: 7, prompt, ahead=5, length=length, last_only=True)
    wrong = sum(a != b for a, b in zip(careless, plain, strict=True))
    return [
        *checks,
        at_least(
            "tokens that go wrong if only the last drafted token is compared",
            1,
            wrong,
            notes="fails",
            note=(
                "The notes compare the sixth token of six. Every place is compared, and the first mismatch "
                "ends the draft."
            ),
        ),
    ]


def _argmax(model: torch.nn.Module) -> Callable[[Sequence[int]], int]:
    @cache
    def known(text: Text) -> int:
        return int(model(torch.tensor([text])).logits[0, -1].argmax())

    return lambda text: known(tuple(text))


def _speculate(
    target: torch.nn.Module,
    draft: Callable[[Sequence[int]], int],
    prompt: Sequence[int],
    *,
    ahead: int,
    length: int,
    last_only: bool = False,
) -> tuple[list[int], int]:
    """The text, cut to `length`, and the number of calls of the target."""
    text, calls = list(prompt), 0
    while len(text) < length:
        drafted = list(text)
        for _ in range(ahead):
            drafted.append(draft(drafted))
        wanted = target(torch.tensor([drafted])).logits[0].argmax(-1).tolist()
        calls += 1
        text = _kept(drafted, wanted, first=len(drafted) - 1 if last_only else len(text))
    return text[:length], calls


def _kept(drafted: list[int], wanted: list[int], *, first: int) -> list[int]:
    """The draft up to the first mismatch from place `first` on, and the target's own token there.

    wanted[i]: the target's token after drafted[: i + 1].
    """
    wrong = next((at for at in range(first, len(drafted)) if drafted[at] != wanted[at - 1]), len(drafted))
    return [*drafted[:wrong], wanted[wrong - 1]]


def _tables(seed: int) -> Distribution:
    """Random probabilities that depend on the last two tokens."""
    table = (
        2
        * torch.randn(
            VOCABULARY + 1,
            VOCABULARY + 1,
            VOCABULARY,
            dtype=torch.float64,
            generator=torch.Generator().manual_seed(seed),
        )
    ).softmax(-1)

    def distribution(text: Text) -> Tensor:
        before, last = (*(VOCABULARY,) * 2, *text)[-2:]
        return table[before, last]

    return distribution


def _rounds(p: Distribution, q: Distribution, text: Text, *, ahead: int) -> dict[Text, float]:
    """Every way one round may end and its probability: the tokens it adds to `text`."""
    ends: dict[Text, float] = {}
    for drafted in itertools.product(range(VOCABULARY), repeat=ahead):
        chance = 1.0
        for at, token in enumerate(drafted):
            chance *= float(q((*text, *drafted[:at]))[token])
        for at, token in enumerate(drafted):
            here = (*text, *drafted[:at])
            accept = min(1.0, float(p(here)[token] / q(here)[token]))
            rest = (p(here) - q(here)).clamp(min=0)
            for other in range(VOCABULARY):
                share = chance * (1 - accept) * float(rest[other] / rest.sum()) if accept < 1 else 0.0
                end = (*drafted[:at], other)
                ends[end] = ends.get(end, 0.0) + share
            chance *= accept
        for extra in range(VOCABULARY):
            end = (*drafted, extra)
            ends[end] = ends.get(end, 0.0) + chance * float(p((*text, *drafted))[extra])
    return ends


def _texts(p: Distribution, q: Distribution, *, ahead: int, length: int) -> dict[Text, float]:
    """The distribution of the first `length` tokens, over all rounds."""
    found: dict[Text, float] = {}
    open_: dict[Text, float] = {(): 1.0}
    while open_:
        text, chance = open_.popitem()
        for end, share in _rounds(p, q, text, ahead=ahead).items():
            whole = (*text, *end)
            into = found if len(whole) >= length else open_
            into[whole[:length]] = into.get(whole[:length], 0.0) + chance * share
    return found


def sampling() -> list[Check]:
    """The checks of spec-sampling-lossless: sampled text has the target's distribution."""
    p, q, length = _tables(1), _tables(2), 3
    texts = list(itertools.product(range(VOCABULARY), repeat=length))
    wanted = torch.tensor(
        [float(torch.stack([p(text[:at])[text[at]] for at in range(length)]).prod()) for text in texts],
        dtype=torch.float64,
    )
    checks = []
    for ahead in (1, 2, 3):
        got = _texts(p, q, ahead=ahead, length=length)
        chances = torch.tensor([got.get(text, 0.0) for text in texts], dtype=torch.float64)
        checks.append(
            same(
                f"all texts of 3 tokens, drafts of {ahead}: their probabilities are the target's",
                chances,
                wanted,
                notes="holds",
            )
        )
    first = _rounds(p, q, (), ahead=1)
    accepted = sum(share for end, share in first.items() if len(end) == 2)
    overlap = float(torch.minimum(p(()), q(())).sum())
    return [
        *checks,
        close("chance that a drafted token is accepted: sum of min(p, q)", overlap, accepted),
        at_least(
            "chi-square p value of 100,000 sampled texts against the target",
            0.01,
            _chi_square(p, q, texts, wanted),
        ),
    ]


def _chi_square(p: Distribution, q: Distribution, texts: list[Text], wanted: Tensor) -> float:
    """Texts of 3 tokens drawn round by round, drafts of 2."""
    import numpy as np
    from scipy.stats import chisquare

    random = np.random.Generator(np.random.PCG64(0))
    counts = dict.fromkeys(texts, 0)
    open_: dict[Text, int] = {(): 100_000}
    while open_:
        text, times = open_.popitem()
        ends = _rounds(p, q, text, ahead=2)
        shares = np.array(list(ends.values()))
        for end, n in zip(ends, random.multinomial(times, shares / shares.sum()), strict=True):
            whole = (*text, *end)
            if n and len(whole) >= 3:
                counts[whole[:3]] += int(n)
            elif n:
                open_[whole] = open_.get(whole, 0) + int(n)
    return float(chisquare(list(counts.values()), 100_000 * wanted.numpy() / wanted.sum().item()).pvalue)


def expected_tokens() -> list[Check]:
    """The checks of spec-expected-tokens: tokens a call of the target, and when drafting gains."""
    gaps, sums = [], []
    for a, ahead in itertools.product((0.2, 0.6, 0.9), range(1, 9)):
        lengths = [*((at + 1, a**at * (1 - a)) for at in range(ahead)), (ahead + 1, a**ahead)]
        mean = sum(n * chance for n, chance in lengths)
        sums.append(abs(sum(chance for _, chance in lengths) - 1))
        gaps.append(abs(mean / ((1 - a ** (ahead + 1)) / (1 - a)) - 1))
    a, ahead, n = 0.6, 5, 200_000
    draws = torch.rand(n, ahead, generator=torch.Generator().manual_seed(0), dtype=torch.float64) < a
    taken = draws.long().cumprod(-1).sum(-1).double() + 1
    z = float((taken.mean() - (1 - a ** (ahead + 1)) / (1 - a)) / (taken.std() / n**0.5))
    rates = [at / 20 for at in range(1, 20)]
    unlike = sum(
        (max(_speed_up(a, g, c) for g in range(1, 9)) > 1 + 1e-12) != (a > c)
        for a, c in itertools.product(rates, rates)
    )
    return [
        close(
            "tokens a call of the target = (1 - a^(g+1)) / (1 - a), all lengths summed: largest gap + 1",
            1.0,
            1 + max(gaps),
        ),
        close("the probabilities of those lengths sum to 1: largest gap + 1", 1.0, 1 + max(sums)),
        at_most(
            "a simulation of 200,000 calls, a = 0.6, g = 5: standard errors off the formula",
            4.0,
            abs(z),
            notes="holds",
        ),
        equal(
            "pairs of a and cost c, of 361, where the best draft gains although a <= c, or fails to "
            "although a > c",
            0,
            unlike,
        ),
        at_most(
            "speed-up with a drafter that is right one time in five, g = 5, c = 0.3",
            1.0,
            _speed_up(0.2, 5, 0.3),
            notes="holds",
            note="a poor drafter costs more than it saves",
        ),
    ]


def _speed_up(a: float, ahead: int, cost: float) -> float:
    """Tokens a call over its cost of g c + 1, in calls of the target."""
    return (1 - a ** (ahead + 1)) / ((1 - a) * (ahead * cost + 1))


CLAIMS: dict[str, Checks] = {
    "spec-greedy-lossless": greedy,
    "spec-sampling-lossless": sampling,
    "spec-expected-tokens": expected_tokens,
}
