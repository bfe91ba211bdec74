"""Bytes to columns within bounds: Avro, Parquet pages, Arrow buffers and every codec."""
