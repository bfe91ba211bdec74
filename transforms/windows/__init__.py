"""Reports are cut by event time, and folded into statistics per window."""

#: The default number of partitions of users of a stream: a few per core of one machine.
PARTITIONS = 8
#: The largest number of partitions: the place of one is a number of 16 bits.
MOST_PARTITIONS = 2**16
