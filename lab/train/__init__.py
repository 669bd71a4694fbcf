"""Training one run: loss, optimizer, schedule, evaluation, the stability monitor, checkpoints, and the
loop that uses them.
"""
