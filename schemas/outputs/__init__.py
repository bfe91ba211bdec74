"""The records that a run writes: snapshots of statistics, and estimates."""
