"""Who is logged in at W&B, how does a sweep mirror, and what may a client know of this process?"""

import netrc
import os
from pathlib import Path
from urllib.parse import urlsplit

from lab.config.strict import ConfigError

CLIENT_PREFIXES = ("WANDB_", "TRACKIO_")
# Of the client's variables only who logs in where is passed on: the others can rename, join or redirect runs.
LOGIN_VARIABLES = frozenset(
    f"WANDB_{name}"
    for name in "API_KEY BASE_URL ENTITY IDENTITY_TOKEN_FILE CREDENTIALS_FILE CONFIG_DIR CACHE_DIR DATA_DIR "
    "HTTP_TIMEOUT INSECURE_DISABLE_SSL".split()
)


def mode_of(board: str, mode: str) -> str:
    """How a sweep mirrors: as W&B resolves its `mode`, or "local" for a dashboard in a folder."""
    return resolve_mode(mode) if board == "wandb" else "local"


def resolve_mode(mode: str) -> str:
    """The W&B mode of a sweep: "online", "offline" or "disabled".

    `mode` is the configured one: auto, online or offline; the variable WANDB_MODE, where set, overrides it.
    Raises ConfigError for an unknown mode, and for online where nobody is logged in.
    """
    key, wanted = "tracker.mode", mode
    if ambient := os.environ.get("WANDB_MODE"):
        key, wanted = "WANDB_MODE", ambient
    if wanted == "auto":
        return "online" if has_login() else "offline"
    if wanted not in ("online", "offline", "disabled"):
        raise ConfigError(f"{key} = {wanted}: not a W&B mode. Choose auto, online or offline.")
    if wanted == "online" and not has_login():
        raise ConfigError(
            f"{key} = online: no W&B login. Set WANDB_API_KEY, run `wandb login` or go offline."
        )
    return wanted


def has_login() -> bool:
    """Whether the client will find a key for its server, in the environment or in ~/.netrc, and not ask."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    server = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").netloc
    path = os.environ.get("NETRC") or Path.home() / ".netrc"
    try:
        return netrc.netrc(path).authenticators(server) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def client_environment(mode: str) -> dict[str, str]:
    """This process's environment less all that could name or send a run elsewhere and, but for online,
    less the key.
    """
    passed = LOGIN_VARIABLES if mode == "online" else LOGIN_VARIABLES - {"WANDB_API_KEY"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith(CLIENT_PREFIXES) or k in passed}
    return {**environment, "WANDB_ERROR_REPORTING": "false"}
