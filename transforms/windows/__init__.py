"""Reports are cut by event time, and folded into statistics per window."""

#: The default number of shards of users of a stream: a few per core of one machine.
SHARDS = 8
#: The largest number of shards: the place of one is a number of 16 bits.
MOST_SHARDS = 2**16
