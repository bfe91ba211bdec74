"""Joining: duplicates are dropped, and the reports of one user at several services become one row."""
