"""The batches of reports between stages, their validation, dead letters, counts and shards."""
