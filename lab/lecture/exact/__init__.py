"""Claims that are computed, not trained: identities, counts and bounds, one file for each section of the
lecture.

Each file ends in `CLAIMS`, a dict from claim id to a function that returns its checks (`check.py`). What
the project's model has is computed with the model's own code, in float64; what it lacks is written out
from its definition. `verify.py` runs them all and writes results/exact.jsonl; `initial.py` and `cost.py`
measure what needs a fresh model or a clock, and `measure.py` writes that to results/measured/.
"""
