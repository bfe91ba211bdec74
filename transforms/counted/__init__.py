"""Reports that come as counts: the columns of a table, and the statistics of its rows."""
