"""From snapshots to estimates: solving, rolling up, comparing with the truth, writing and printing."""
