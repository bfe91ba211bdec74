"""Estimators of the frequencies and means of keys with values."""
