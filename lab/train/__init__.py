"""Training one run, from its first step or its newest checkpoint to an end state.

worker          one run in a process of its own; needs torch and numpy alone
loop            the steps of a run, one after the other, and its end
trainer         a step, and the evaluations
loss            what training minimises
optimizer       the optimizers: an axis
schedule        the learning rate over a run: an axis
recipe          whether there is code for the optimizer and the schedule of a run
evaluate        validation loss, and the excess over the floor where it is known
surprisal       what each prediction costs, in nats, from logits
lengths         the same loss at other lengths of context
continuation    texts that a model writes
stability       spikes as they come, and divergence
snapshot        training state to bytes and back
"""
