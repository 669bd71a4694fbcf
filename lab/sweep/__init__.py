"""How many runs are carried out, here or elsewhere, and which of them.

local       jobs on this machine's cores or GPU, each in a process of its own
progress    live on a terminal, else a line a run
carry_out   how a stage is carried out, and what stops the stages
rate_search the search of learning rates carried out
halving     which rates go on to the next horizon
search      which learning rates a search tries, and which one each arm trains with
stages      search, then seeds, look by look
space       a key and its range, as it is written on the command line
storage     where a study lives: a journal or a database
study       Optuna asks, runs answer, and halving drops what is behind
trials      a trial of a study as a run of the store
parcel      runs to a machine with torch and numpy only, and back
away        what trains them there: python -m lab.sweep.away DIR
"""
