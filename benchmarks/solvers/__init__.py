"""What a solve costs: evaluations, time and memory, as ratios of two things measured in one run."""
