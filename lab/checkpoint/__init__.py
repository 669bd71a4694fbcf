"""What is done with one trained run.

trained     the model of its newest checkpoint, and the tokenizer whose tokens it knows
texts       what it writes
learning    what it has learnt, skill by skill
export      what it is to transformers of Hugging Face
"""
