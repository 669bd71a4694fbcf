"""The commands of `lab`, by what they are about. A command takes the parsed options and the overrides and
returns its exit code.

training      train
sweeps        sweep, plan, collect
runs          status, report, publish, sync
evidence      claims, verify-exact, measure, noise
checkpoints   sample, export
corpora       axes, baselines, skills
tuning        tune

arguments     what each command takes
jobs          how the jobs of any plan are carried out and told of
listing       tables and JSON
places        where results and caches lie
completion    of the shell

Heavy imports stay inside the functions, so that --help is instant and bad input is refused at once.
"""
