"""Simulated people, their reports, and the errors of estimates from these."""
