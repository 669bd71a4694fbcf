"""With which knobs can a story be told? The range of each, which the rules of a configuration and the story
generator both read.
"""

from typing import NamedTuple

from lab.config.schema import Grammar


class KnobRange(NamedTuple):
    """From `lowest` to `highest`, each of them allowed unless its end is open; `otherwise` tells the user."""

    lowest: float
    highest: float
    otherwise: str
    lowest_open: bool = False
    highest_open: bool = False

    def holds(self, value: float) -> bool:
        """Whether a story can be told with this value; never with NaN."""
        above = self.lowest < value if self.lowest_open else self.lowest <= value
        return above and (value < self.highest if self.highest_open else value <= self.highest)


def _from_to(lowest: int, highest: int, of: str = "") -> KnobRange:
    return KnobRange(lowest, highest, f"must be from {lowest} to {highest}{of}.")


KNOBS = {
    "words": KnobRange(0, 1, "must be above 0 and at most 1, the share in use.", lowest_open=True),
    "zipf_exponent": KnobRange(0, 4, "must be between 0 and 4."),
    # How many facts there are names for, only the generator's lexicon knows.
    "facts": _from_to(1, 10**7),
    # The things of a story come from as many lists.
    "objects": _from_to(1, 3),
    "friends": _from_to(1, 20),
    "events": _from_to(1, 40),
    "languages": _from_to(1, 20),
    "distance": _from_to(0, 20, " sentences"),
    "noise": KnobRange(0, 1, "must be at least 0 and below 1.", highest_open=True),
}


def misfit_knobs(grammar: Grammar) -> list[str]:
    """A sentence for each knob with which no story can be told; none where all is well."""
    return [
        f"data.grammar.{name} = {value}: {range_.otherwise}"
        for name, range_ in KNOBS.items()
        if not range_.holds(value := getattr(grammar, name))
    ]
