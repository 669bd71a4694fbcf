"""AdamW with one rule for weight decay: matrices decay; embeddings, positions, norms and biases do not."""

import torch
from torch import Tensor, nn

from lab.config.schema import RunConfig

DECAYED_ROLES = frozenset({"linear", "value", "residual", "head"})


def parameter_groups(roles: dict[str, str]) -> dict[str, list[str]]:
    """Parameter names by group; every parameter stands in exactly one."""
    decayed = [name for name, role in roles.items() if role in DECAYED_ROLES]
    return {"decayed": decayed, "plain": [name for name in roles if roles[name] not in DECAYED_ROLES]}


def adamw(model: nn.Module, config: RunConfig, *, roles: dict[str, str]) -> torch.optim.AdamW:
    """torch's fused AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) over the two groups."""
    parameters, groups = dict(model.named_parameters()), parameter_groups(roles)
    decay = {"decayed": config.regularization.weight_decay, "plain": 0.0}
    o = config.optimizer
    return torch.optim.AdamW(
        [
            {"params": [parameters[n] for n in names], "weight_decay": decay[group]}
            for group, names in groups.items()
            if names
        ],
        lr=o.lr,
        betas=(o.beta1, o.beta2),
        eps=o.eps,
        fused=True,
    )


OPTIMIZERS = {"adamw": adamw}


def state_by_name(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """Moments under their parameter's name: matching by position would swap equal shapes silently."""
    return {name: dict(optimizer.state[p]) for name, p in model.named_parameters() if p in optimizer.state}


def load_state_by_name(
    optimizer: torch.optim.Optimizer, model: nn.Module, state: dict[str, dict[str, Tensor]]
) -> None:
    """Put moments back. Raises ValueError where names or shapes differ."""
    parameters = dict(model.named_parameters())
    if parameters.keys() != state.keys():
        raise ValueError(f"optimizer state and model differ in {sorted(parameters.keys() ^ state.keys())}")
    for name, moments in state.items():
        if moments["exp_avg"].shape != parameters[name].shape:
            raise ValueError(f"optimizer state of {name} has shape {tuple(moments['exp_avg'].shape)}")
        optimizer.state[parameters[name]] = dict(moments)
