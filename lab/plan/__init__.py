"""An ablation file as matched arms, counts and jobs."""
