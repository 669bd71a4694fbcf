"""What do the runs of a plan mean? From run records to claims that hold or don't; it trains nothing and
imports no torch.

outcomes        the words for what can become of a claim
stats           intervals and p values                  metric          the number that a claim judges
evidence        arms, seed by seed, from plan and runs  comparison      one arm against another
lr_range        what a search of rates measured         noise           equal runs that differ by seed
predicates      the tests of claims                     claim_schema    a claim as it stands in ablations/
judgement       what the looks decide                   confounds       what else differs
claims          the verdict on a plan                   ledger          every claim of the lecture
simulation      how often verdicts are wrong
"""
