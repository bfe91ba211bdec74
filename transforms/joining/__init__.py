"""The reports of one user at several services become one row."""
