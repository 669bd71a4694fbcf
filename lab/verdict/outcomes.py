"""What can become of a claim, in the words of verdicts, ledger and reports."""

REPRODUCED, CONTRADICTED, SMALL = "reproduced", "contradicted", "too small to matter"
INCONCLUSIVE, NOT_RUN = "inconclusive", "not run"
BEYOND = "not measurable at this size"  # of the ledger alone, where no sweep has spoken
DECIDED = (REPRODUCED, CONTRADICTED, SMALL)
STATES = (*DECIDED, INCONCLUSIVE, NOT_RUN, BEYOND)
