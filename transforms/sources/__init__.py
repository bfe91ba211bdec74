"""All ways in: files, watched folders, Pub/Sub, and the unbounded source that reads the latter two."""
