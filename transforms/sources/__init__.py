"""All ways in: files, folders that are watched, Pub/Sub, and the unbounded source that reads them."""
