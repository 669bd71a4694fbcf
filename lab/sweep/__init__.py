"""How many runs are carried out: stages, the search of learning rates, studies, and what trains them."""
