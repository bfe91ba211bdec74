"""Messages of Pub/Sub and Kafka to columns."""
