"""Simulated people: their reports, in files for `ldpbeam perturb`, and trials for `plan` and `evaluate`."""
