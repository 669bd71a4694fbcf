"""The claims of CS336 lecture 3. Nothing but commands enters: the lab serves other questions without it.

register.py      what the lecture notes say, row by row
claim_test.py    which ablation tests a claim
finding.py       what was found out about claims: checks, measurements, published sweeps
ledger.py        the state of each claim by rule
ledger_page.py   the ledger as a page
core_minutes.py  what testing a claim takes
worklist.py      what is still to be run, and running it
exact/           claims that are computed or measured
"""
