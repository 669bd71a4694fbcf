"""Which values of some keys are best?

study     Optuna asks, runs answer, and halving drops what is behind
space     a key and its range, as it is written on the command line
trials    a trial as a run of the store
"""
