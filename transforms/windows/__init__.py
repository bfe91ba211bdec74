"""Reports are cut by event time, and folded into statistics per window."""
