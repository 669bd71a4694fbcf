"""Runs at a dashboard, one way, never in the way of training."""
