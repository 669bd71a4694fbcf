"""The claims of CS336 Lecture 3: the ledger, its page, what is left to run, and what is computed or measured."""
