"""The library: clients and estimates for a Python program, without Beam and without files."""
