"""Which overrides set a sweep apart from others of its size and text?"""

PATHS = ("data.path", "data.validation_path")


def is_unusual(override: str) -> bool:
    """Whether it may change a result and is neither the size nor the text."""
    key = override.partition("=")[0]
    return key not in ("size", "data", *PATHS) and key.partition(".")[0] not in ("tracker", "engine")
