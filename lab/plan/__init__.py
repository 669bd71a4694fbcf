"""From an ablation file, or a few overrides, to matched arms and jobs. Planning prepares data and trains
nothing.

ablation        a file of ablations/, what is wrong with it, and its arms composed
budget          rules resolved to a shape and steps; parameters, FLOPs and bytes counted
matching        the solver that gives every arm as much of one count as the baseline has
branch          a run that starts from another's checkpoint
job_set         jobs with the engine that trains them and the tracker that shows them
planned_arm     an arm as it will be trained, and its jobs
horizons        trunks and branches: at which numbers of tokens an arm is judged
planning        the plan of an ablation
noise_plan      the plan of `lab noise`
single          the runs of `lab train`
"""
