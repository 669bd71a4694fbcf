"""The commands of `lab`, by what they are about. A command takes the parsed options and the overrides and returns its exit code.

training      train; and how any plan's jobs are carried out and told of
sweeps        sweep, plan, collect
runs          status, report, publish, sync
evidence      claims, verify-exact, measure, noise
checkpoints   sample, export
corpora       axes, baselines, skills
tuning        tune

Heavy imports stay inside the functions, so that --help is instant and bad input is refused at once.
"""
