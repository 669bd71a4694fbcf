"""What was trained: the identity of runs, the run store, and every record that is read from JSON. Standard
library only.

files           strict JSON, written whole or not at all
identity        what makes a run the run it is, as 12 hex digits
states          pending, running, lost, paused, pruned, finished, diverged, failed
run_record      one run: its manifest, counts, summary and thinned curves
log_line        one line of metrics.jsonl
spikes          the rule of spikes, and what moved first before one
curves          a log thinned until a published line can hold it
provenance      the code, versions and hardware of a run
job             what a worker needs to train one run
run_store       the only writer below results/runs
metric          which number of a run a claim judges
predicate_forms     what a claim may ask of the evidence
claim           a claim of an ablation file, and whether it is well formed
noise_record    how much equal runs differ by their seed alone
plan_record     what an ablation asked for, as plan.json keeps it
registration    the rules of a sweep, noted before the runs that judge
exact_check     a check of a claim that is computed and not sampled
"""
