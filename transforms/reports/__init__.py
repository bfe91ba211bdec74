"""A batch of reports, its checks, and how reports are counted and dropped."""
