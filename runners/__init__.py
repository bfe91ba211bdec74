"""Where the pipeline runs. Each file says what it sets and why."""
