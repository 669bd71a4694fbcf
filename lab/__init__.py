"""Fair, cheap and never-lost ablations of small language models.

Data flows one way; each stage hands files to the next, so each can be rerun alone:

    conf/ + ablations/            what is asked, as YAML
      -> config, compose          one typed, closed configuration; every problem named before anything starts
      -> data                     corpus -> tokenizer -> token shards; batch = f(seed, step)
      -> model, budget, matching  the Transformer, its counts, and the solver that matches arms
      -> train                    one loop, one run
      -> runs                     run identity and the run store
      -> sweep                    an ablation -> plan -> workers; tracker mirrors the store to a board: W&B
      -> stats, claims, report    paired estimates -> verdicts -> pages
"""
