"""Decoding of Pub/Sub and Kafka messages to columns."""
