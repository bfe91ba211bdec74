"""The engines that run pipelines. Each module documents the options that it sets, and why."""
