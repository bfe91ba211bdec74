"""What a user names to be read, checked before anything runs: files, topics, times and keys."""
