"""The sinks: snapshots, estimates, dead letters and accounting."""
