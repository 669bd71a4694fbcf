"""What do runs mean? From plans and records to outcomes of claims, with numpy and scipy and without torch.

outcomes        what can become of a claim
stats           samples of paired differences: intervals and p values
wording         differences of a metric in words
lr_range        what a search says of how wide a range of rates an arm stands
evidence        a plan and records joined into arms whose values pair by seed
rate_choice     how much it matters that a few seeds chose the rate
text_error      what a difference owes to the validation text
direction       where an effect is going as training goes on
course          which difference of a claim has a direction
comparison      one arm against another, seed by seed, and what statements make of it
predicates      the test of each form of claim
seed_noise      how much equal runs differ by their seed alone
decidable       whether a design can decide its claims at all
judgement       outcomes at their levels, family by family and look by look
standing        which arm is best, and which are clearly worse
confounds       what else differs between the arms
verdict_record  verdict.json as types
verdicts        the whole of it from evidence
direction_simulation    how often a direction is wrong, by made-up experiments
simulation      how often each predicate is wrong, by made-up experiments
"""
