"""Accuracy at the papers' settings, beside what they print and what their released code reaches."""
