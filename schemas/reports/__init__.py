"""The columns of reports: their names and types, and how the fields of each file format become columns."""
