"""Report files: Avro containers, Parquet and JSON lines."""
