"""From documents to token shards, and what is read from them: a batch is a function of (seed, step).

    stories            the generator of stories whose exact probability is known
    text_files         which files of a folder are read, which are held out, and which are left out
    text_lines         the lines of a text file
    json_values        the values of a .json
    readers            files -> documents
    corpus             which documents are trained on, which are held out
    near_duplicates    which texts are nearly the same
    leaks              which training documents the validation set holds too
    tokenizer          bytes, or byte-level BPE
    prepare            documents -> token shards, built once and kept
    account            what was read of the user's text, in a line
    shard_meta         what a folder of shards says about itself, and its seals
    shards             the reader: the training rows of a step
    evaluation         which text an evaluation scores: rows of documents, and forced choices
    ngram              what counting predicts: the line that a model has to beat

Training workers read shards, shard_meta and evaluation alone, which need numpy and nothing heavier.
"""
