"""All ways in: files, watched folders, Pub/Sub and Kafka, and the unbounded source of streams."""
