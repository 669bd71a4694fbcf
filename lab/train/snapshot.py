"""Training state to bytes and back. Weights and moments go by parameter name; reading never runs code from
the file.
"""

import io

import torch
from torch import nn

from lab.train.optimizer import load_state_by_name, state_by_name


def pack(model: nn.Module, optimizer: torch.optim.Optimizer, *, step: int, bytes_seen: int) -> bytes:
    """Everything that training after `step` depends on; data order, dropout and schedule are functions of
    the step.
    """
    buffer = io.BytesIO()
    state = {
        "model": model.state_dict(),
        "optimizer": state_by_name(optimizer, model),
        "step": step,
        "bytes": bytes_seen,
    }
    torch.save(state, buffer)
    return buffer.getvalue()


def unpack(
    payload: bytes, model: nn.Module, optimizer: torch.optim.Optimizer, *, device: str
) -> tuple[int, int]:
    """Load a packed state into model and optimizer; returns (step, bytes seen). Raises on any differing
    name or shape.
    """
    state = torch.load(io.BytesIO(payload), map_location=device, weights_only=True)
    model.load_state_dict(state["model"], strict=True)
    load_state_by_name(optimizer, model, state["optimizer"])
    return int(state["step"]), int(state["bytes"])


def unpack_weights(payload: bytes, model: nn.Module) -> None:
    """Load the weights of a packed state alone, onto the CPU. Raises RuntimeError on any differing name or
    shape.
    """
    state = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"], strict=True)


def is_finite(model: nn.Module) -> bool:
    """Whether every weight is finite: a checkpoint with NaN in it would replace the last good one."""
    return all(bool(torch.isfinite(p).all()) for p in model.parameters())
