"""Decoding of untrusted bytes with bounded memory: Avro, Parquet pages, Arrow buffers and every codec."""
