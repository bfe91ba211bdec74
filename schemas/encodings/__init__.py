"""Decoding of untrusted bytes with bounded memory: Avro, Arrow buffers and every codec."""
