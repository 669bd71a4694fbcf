"""The states a run can be in, which of them are ends, and which ends are results."""

RESULT_STATES = ("finished", "diverged")
END_STATES = (*RESULT_STATES, "failed")
STOPPED = 130  # exit status of a command that was interrupted and goes on where it stopped when given again
