"""Fair, cheap and never-lost ablations of small language models.

Data flows one way; each stage hands files to the next, so each can be rerun alone. Every module and room,
and what it is about:

What is asked, as YAML in conf/ and ablations/
    config         the typed, closed schema        compose        conf/ and overrides to one configuration
    rules          what values it may hold         shape          width, depth and heads as the rules ask for them
    ablation       a file of ablations/

What is trained
    data           corpus -> tokenizer -> token shards; batch = f(seed, step)
    model          the Transformer                 budget         its parameters, FLOPs and bytes
    matching       the solver that matches arms    planned_arm    an arm with its data, shape, counts and jobs
    plan           an ablation as JSON and jobs
    train          one loop, one run               runs           run identity and the run store
    branch         a run from another's checkpoint provenance     code, versions and hardware of a run
    spikes         the rule of spikes              curves         what is kept of a run's log

How many runs are carried out
    sweep          jobs on this machine            staged         search, then seeds, look by look
    search         learning rates of each arm      worklist       what the ledger lacks, cheapest first
    parcel         to another machine and back     worker         what trains there
    tune           Optuna over any keys
    tracker        runs to W&B and others          mirror, board  one run at a dashboard; the dashboards

What it means
    verdict        from runs to claims that hold   exact          claims computed or measured
    report         pages and figures               publish        results/<ablation>/, for a commit

What is done with one run
    trained        its newest model                texts          what it writes
    skills         what it learnt                  export         for transformers of Hugging Face

The command line
    cli            `lab`                           commands       what it does, command by command
    progress       live, or a line a run
"""
