"""All ways in: files, watched folders, Pub/Sub, Kafka, and the unbounded source that reads all but plain files."""
