"""Fair, cheap and never-lost ablations of small language models.

Data flows one way; each room hands records or files to the next. The map of each room is the docstring of its
__init__.py, and tests/test_imports.py says who may enter which.

    config        what is asked: the Hydra tree, its closed schema, and overrides checked
    data          corpus -> tokenizer -> token shards; batch = f(seed, step); the generator of stories
    model         the Transformer, one file an axis
    train         one loop, one run
    store         run identity, the run store, and every record that is read from JSON
    plan          an ablation file -> matched arms -> jobs
    sweep         stages, searches and studies, and the engines that train the jobs
    track         runs at a dashboard, never in the way of training
    verdict       records -> estimates -> outcomes
    report        pages, figures, what is published
    lecture       CS336 alone: the ledger, what is left to run, computed and measured claims
    checkpoint    what is done with one trained run: texts, skills, export
    commands      what one types, a file a command
    cli           `lab`
"""
