"""The commands of ``ldpbeam``, the pipelines that they run, and the estimates made from their results."""
