"""What a report, a piece and a statistic cost, each step measured in a process of its own on one core."""
