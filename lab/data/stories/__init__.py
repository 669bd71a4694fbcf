"""The generator of stories, whose next words have known probabilities."""
