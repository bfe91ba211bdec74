"""What was measured, and how far a whole run is from what the steps predict."""

from __future__ import annotations

from benchmarks.scale.computing.costs import check, overhead
from benchmarks.scale.measured import Measured
from benchmarks.scale.numbers import rate, short, table
from benchmarks.scale.setting import CHECKED_SHARDS, MESSAGE_REPORTS, shard_reports


def section(m: Measured) -> str:
    """Reports a second, bytes of a report, and sizes of statistics."""
    return f"""\
### What was measured
CPU time of one core ({m.processor}), each step in its own process, the best of three. Two services, a \
square wave and a piecewise, 256 buckets, keys of 16 bytes.

| step | reports a second | plus, for each | microseconds |
| --- | --- | --- | --- |
| read Avro, validate | {rate(m.read)} | | |
| cut by shard | {rate(m.cut)} | slice: the rows of a batch for one shard | \
{short(m.cut_slice)} |
| local run: spill, shuffle places, read | {rate(m.spill)} | piece: the reports of a bundle for one \
shard | {short(m.spill_piece)} |
| other engines: encode, the local engine's own shuffle, decode | {rate(m.shuffle)} | piece | \
{short(m.shuffle_piece)} |
| join, tally | {rate(m.join)} | piece; join | {short(m.join_piece)}; {short(m.join_each)} |
| cut by 24 windows, join, tally | {rate(m.join_hours)} | piece; join | the same |
| compare report ids, if there are any | {rate(m.first)} | piece | {short(m.first_piece)} |
| merge statistics | | statistic, in batch; in a pane | {short(m.merge)}; {short(m.gain)} |
| dead letters | {rate(m.letter)} | | |
| stream: decode messages of {MESSAGE_REPORTS:,}, validate | {rate(m.taken)} | | |
| stream: messages of one | {rate(m.taken_alone)} | | |
| stream: cut by window and shard | {rate(m.stream_cut)} | slice | {short(m.stream_cut_slice)} |

A local run takes {short(overhead(m))} times the sum of its steps; the figures below include this factor. A \
slice or a piece costs the same with one report as with a thousand, so at scale the number of reports per \
piece decides. A run of 2,000,000 reports in {CHECKED_SHARDS:,} shards took {short(m.checked)} s; \
these numbers predict {short(check(m))} s.

| bytes of a report | |
| --- | --- |
| in fixed-width Avro | {short(m.avro)} |
| in the shuffle, of one service or of several that are joined | {short(m.bytes_plain)}; with a report id \
{short(m.bytes_ids)}, twice: by id, by user |
| per piece in addition: schema, key | {short(m.bytes_piece)} |
| in a message of {MESSAGE_REPORTS:,}; in a message of one | {short(m.message_bytes)}; \
{short(m.message_bytes_alone)} |
| in a stream's state, with an id made from the message's id | {short(m.bytes_streamed)} |
| in memory while its shard is joined | {short(m.memory)}, plus {short(m.process / 1e6)} MB for the \
process |
| a dead letter without its record | {short(m.letter_bytes)} |

{statistic_table(m)}

The statistics hold {shard_reports(m.avro) // 2:,} users; the maximum is in brackets. The study alone \
determines the maximum, unless it sets `joint_buckets`: then a joint histogram has at most one cell per \
user. Merging 400 statistics takes {short(m.merge_memory)} times their bytes of memory.
"""


def statistic_table(m: Measured) -> str:
    """Sizes of statistics: a row for each number of services, a column for each number of buckets."""
    rows = []
    for services in (1, 2, 3):
        sizes = [found for name, found in m.statistics.items() if name.startswith(f"{services} ")]
        told = [f"{short(seen / 1e3)} ({short(max(seen, most) / 1e3)})" for seen, most in sizes]
        rows.append([f"{services} service{'s, joined' if services > 1 else ''}", *told])
    buckets = [name.split()[1] for name in m.statistics if name.startswith("1 ")]
    return table("KB of a statistic|" + "|".join(f"{n} buckets" for n in buckets), rows)
