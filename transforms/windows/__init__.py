"""Reports are cut by event time, and folded into statistics per window."""

#: The default number of partitions of users of a stream: a few per core of one machine.
PARTITIONS = 8
