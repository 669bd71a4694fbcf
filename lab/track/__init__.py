"""Runs at a dashboard, one way, never in the way of training.

The run store is the truth and a dashboard a mirror of it. Nothing here writes below results/runs, and
nothing that a dashboard's client does reaches a sweep.

follower       the process that mirrors the runs of a sweep while they train
backlog        what a dashboard is missing, sent at any later time
mirror         the runs of one store at one dashboard, and one of them opened there
journal        what the dashboard has of each run, kept in a file
metrics_tail   the log of a run, step by step, while it grows
layers         the picture of a run's layers
dashboards     what a dashboard is told of a run, and the three of them behind one call
login          who is logged in at W&B, and what a client may know of this process
wandb          Weights & Biases
trackio        Trackio
tensorboard    TensorBoard
"""
