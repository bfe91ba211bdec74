"""What a run writes: snapshots of statistics, and estimates."""
