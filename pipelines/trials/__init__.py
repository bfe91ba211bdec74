"""Trials of a study on populations: what its estimates would be, compared with the truth."""
