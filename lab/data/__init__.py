"""From documents to token shards: corpora, tokenizers, the builder, the reader, the n-gram baseline."""
