"""The model: a causal Transformer that reads top to bottom, and beside it one file for each structural axis.

transformer       from tokens to logits; names no variant
block             how attention and the feed-forward layer of a layer join the stream
norm_placement    where the norms of a sub-layer stand
norm              how a vector is normalised
attention         how tokens read from earlier tokens
pattern           which earlier tokens each layer may read
position          how the model knows where a token stands
kernel            how attention's products are computed
ffn               what the feed-forward layer computes
activation        its non-linearity, and whether it gates
bias              which matrices and norms have an additive bias
dropout           which activations are dropped
linear            the matrices and the embeddings, with their roles
initializer       which values a role starts from
randomness        which random numbers each part draws
published         which architectures of transformers compute what a variant computes
"""
