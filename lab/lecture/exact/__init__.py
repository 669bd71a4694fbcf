"""Claims that are computed or measured, not trained: one file for each section of the lecture.

Identities, counts and bounds are computed: norms, feed_forward, blocks, positions, heads_and_patterns,
softmax, inference, experts, speculation, parallelism, survey (over the table in survey.yaml). Each of these
files ends in `CLAIMS`, a dict from claim id to a function that returns its checks (`check.py`). What the
project's model has is computed with the model's own code, in float64 (`models.py`); what it lacks is written
out from its definition. `verify.py` runs them all.

What needs a fresh model (`initial.py`) or a clock (`cost.py`, with `timing.py`) is measured: `measuring.py`
runs it, `measured_claim.py` is the record.
"""
