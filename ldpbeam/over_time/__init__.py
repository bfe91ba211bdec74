"""Several windows of one user: remembered noise, windows joined by user, panels, and what users spend."""
