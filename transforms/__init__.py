"""Beam transforms, one file a stage of the stream, in the order data passes them.

``files``, ``read``, ``validate``, ``repeats``, ``windows``, ``users``, ``aggregate``, ``write``; what several
stages share is in ``batches``, ``counts``, ``dead_letters``, ``joins`` and ``partitions``.
"""
