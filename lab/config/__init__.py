"""What is asked: `conf/`, the schema that closes it, and overrides checked before Hydra sees them."""
