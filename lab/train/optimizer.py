"""Which rule turns gradients into steps? Each variant is a function that makes an optimizer of torch.

Contract: a variant takes the weights, the learning rate and, by keyword, what its YAML states; every weight
stands in one of its groups, whose weight decay is that of the weight. Matrices decay; embeddings, positions,
norms and biases do not. The trainer sets the rate of every group before each step, and checkpoints keep
whatever moments there are.
- adamw: Loshchilov & Hutter 2019 (1711.05101).
- sgd: with momentum, of Polyak or of Nesterov (Sutskever et al. 2013, section 2); decay adds to the gradient.
- lion: the sign of a momentum (Chen et al. 2023, 2302.06675, algorithm 2).
- muon: hidden matrices step by their orthogonalised momentum (Jordan et al. 2024,
  kellerjordan.github.io/posts/muon), as far as AdamW would (Liu et al. 2025, 2502.16982, section 2.2), so
  that one rate serves both; AdamW moves the rest.
- adafactor: second moments by row and column, and steps relative to a weight's size (Shazeer & Stern 2018,
  1804.04235, algorithms 4 and 5); as torch has it, with the learning rate in place of the paper's 0.01. It
  waits for a GPU at every weight.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from lab.config.schema import RunConfig
from lab.model.transformer import Transformer

HIDDEN_ROLES = frozenset({"linear", "value", "residual"})
DECAYED_ROLES = HIDDEN_ROLES | {"head"}


class Weight(NamedTuple):
    """A parameter with its role in the model (lab/model/initializer.py) and its weight decay."""

    tensor: nn.Parameter
    role: str
    decay: float


def parameter_groups(roles: dict[str, str]) -> dict[str, list[str]]:
    """Parameter names by group; every parameter stands in exactly one."""
    decayed = [name for name, role in roles.items() if role in DECAYED_ROLES]
    return {"decayed": decayed, "plain": [name for name in roles if roles[name] not in DECAYED_ROLES]}


def optimizer_of(config: RunConfig, model: Transformer) -> torch.optim.Optimizer:
    """The optimizer that the run asks for, over all parameters of its model."""
    roles, parameters = model.roles(), dict(model.named_parameters())
    decay = {"decayed": config.regularization.weight_decay, "plain": 0.0}
    weights = [
        Weight(parameters[name], roles[name], decay[group])
        for group, names in parameter_groups(roles).items()
        for name in names
    ]
    chosen = config.optimizer
    return VARIANTS[chosen.name](weights, chosen.lr, **chosen.own)


def _by_decay(weights: Iterable[Weight]) -> list[dict[str, Any]]:
    """Parameter groups as torch takes them, one for each weight decay."""
    tensors: dict[float, list[nn.Parameter]] = {}
    for weight in weights:
        tensors.setdefault(weight.decay, []).append(weight.tensor)
    return [{"params": of, "weight_decay": decay} for decay, of in tensors.items()]


def adamw(
    weights: Sequence[Weight], lr: float, *, beta1: float, beta2: float, eps: float
) -> torch.optim.Optimizer:
    return torch.optim.AdamW(_by_decay(weights), lr=lr, betas=(beta1, beta2), eps=eps, fused=True)


def sgd(weights: Sequence[Weight], lr: float, *, momentum: float, nesterov: bool) -> torch.optim.Optimizer:
    return torch.optim.SGD(_by_decay(weights), lr=lr, momentum=momentum, nesterov=nesterov, fused=True)


def lion(weights: Sequence[Weight], lr: float, *, beta1: float, beta2: float) -> torch.optim.Optimizer:
    return Lion(_by_decay(weights), lr=lr, beta1=beta1, beta2=beta2)


def muon(
    weights: Sequence[Weight],
    lr: float,
    *,
    momentum: float,
    nesterov: bool,
    ns_steps: int,
    beta1: float,
    beta2: float,
    eps: float,
) -> torch.optim.Optimizer:
    """Matrices of a mixture's experts, which torch keeps as one tensor of three axes, are among the rest."""

    def is_hidden(weight: Weight) -> bool:
        return weight.role in HIDDEN_ROLES and weight.tensor.ndim == 2

    rest = [weight for weight in weights if not is_hidden(weight)]
    return Joint(
        Muon(
            _by_decay(filter(is_hidden, weights)),
            lr=lr,
            momentum=momentum,
            nesterov=nesterov,
            ns_steps=ns_steps,
        ),
        adamw(rest, lr, beta1=beta1, beta2=beta2, eps=eps),
    )


def adafactor(
    weights: Sequence[Weight],
    lr: float,
    *,
    decay_rate: float,
    clip_threshold: float,
    eps1: float,
    eps2: float,
) -> torch.optim.Optimizer:
    return torch.optim.Adafactor(
        _by_decay(weights), lr=lr, beta2_decay=-decay_rate, eps=(eps1, eps2), d=clip_threshold
    )


class Lion(torch.optim.Optimizer):
    """Steps of one size in every coordinate: the sign of beta1 m + (1 - beta1) g; m follows g at beta2."""

    def __init__(self, groups: list[dict[str, Any]], *, lr: float, beta1: float, beta2: float):
        super().__init__(groups, {"lr": lr, "beta1": beta1, "beta2": beta2})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            gradients, lr = [weight.grad for weight in weights], group["lr"]
            momenta = [_kept(self, "momentum", weight) for weight in weights]
            steps = torch._foreach_lerp(momenta, gradients, 1 - group["beta1"])
            torch._foreach_sign_(steps)
            torch._foreach_mul_(weights, 1 - lr * group["weight_decay"])
            torch._foreach_add_(weights, steps, alpha=-lr)
            torch._foreach_lerp_(momenta, gradients, 1 - group["beta2"])


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum, with the size of Liu et al. 2025: a root mean square of 0.2.

    torch.optim.Muon is the same in bfloat16 on every device, ten times as slow as fp32 on many CPUs.
    """

    def __init__(
        self, groups: list[dict[str, Any]], *, lr: float, momentum: float, nesterov: bool, ns_steps: int
    ):
        defaults = {"lr": lr, "momentum": momentum, "nesterov": nesterov, "ns_steps": ns_steps}
        super().__init__(groups, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                velocity = _kept(self, "velocity", weight).mul_(momentum).add_(weight.grad)
                ahead = weight.grad.add(velocity, alpha=momentum) if group["nesterov"] else velocity
                weight.mul_(1 - lr * group["weight_decay"])
                step = orthogonalised(ahead, steps=group["ns_steps"])
                weight.add_(step, alpha=-lr * 0.2 * max(weight.shape) ** 0.5)


def orthogonalised(matrix: Tensor, *, steps: int) -> Tensor:
    """The matrix with all singular values near 1, by the Newton-Schulz iteration of Jordan et al. 2024.

    Five steps leave them between about 0.7 and 1.2. In fp32 on CPUs and in bfloat16 on GPUs.
    """
    x = matrix.bfloat16() if matrix.is_cuda else matrix
    x = x.T if len(x) > len(x.T) else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x.T if len(matrix) > len(matrix.T) else x


def _kept(optimizer: torch.optim.Optimizer, name: str, weight: nn.Parameter) -> Tensor:
    """A moment of the weight, 0 before its first step."""
    state = optimizer.state[weight]
    if name not in state:
        state[name] = torch.zeros_like(weight)
    return cast(Tensor, state[name])


class Joint(torch.optim.Optimizer):
    """Several optimizers as one, each with parameters of its own: their groups and moments are shared."""

    def __init__(self, *parts: torch.optim.Optimizer):
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts
        for part in parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()


VARIANTS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": adamw,
    "sgd": sgd,
    "lion": lion,
    "muon": muon,
    "adafactor": adafactor,
}


def state_by_name(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """Moments under their parameter's name: matching by position would swap equal shapes silently.

    A parameter without any, as all have in SGD without momentum, stands there with none.
    """
    return {name: dict(optimizer.state.get(p, {})) for name, p in model.named_parameters()}


def load_state_by_name(
    optimizer: torch.optim.Optimizer, model: nn.Module, state: dict[str, dict[str, Tensor]]
) -> None:
    """Put the moments of the same optimizer back, whatever they are called. Raises ValueError where the
    parameters differ.
    """
    parameters = dict(model.named_parameters())
    if parameters.keys() != state.keys():
        raise ValueError(f"optimizer state and model differ in {sorted(parameters.keys() ^ state.keys())}")
    for name, moments in state.items():
        if moments:
            optimizer.state[parameters[name]] = dict(moments)
