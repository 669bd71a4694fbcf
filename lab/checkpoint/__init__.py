"""What is done with one trained run: its texts, what it learnt, its export."""
