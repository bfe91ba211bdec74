"""What each key of the graphs holds, and what of that grows with users."""

from __future__ import annotations

from ldpbeam.pipelines.graphs import batch
from ldpbeam.transforms.outputs.letter_files import DEAD_LETTER_SHARDS
from ldpbeam.windows import REMEMBERED_WINDOWS


def section() -> str:
    """A row for each stage."""
    return f"""\
### What grows with users, and what does not
| stage | key | content of a key | with more users |
| --- | --- | --- | --- |
| `DropDuplicateIds` | attribute, shard of ids | its reports that have ids, of all windows | more keys, \
to {batch.MOST_SHARDS:,}; then more in each |
| `GroupUsers` | attribute, shard of users | its reports of all windows | same as `DropDuplicateIds` |
| `Aggregate` | attribute, group, window | one statistic, merged from those of the bundles | more to merge, \
like shards |
| `CapGroups` | attribute, window | one statistic per group, before the cap | the same; more with groups |
| snapshots, estimates | attribute, window | `at_most` + 1 statistics | the same |
| dead letters | one of {DEAD_LETTER_SHARDS} | its dead letters, sorted | more, with bad reports |
| accounting | a counter's name | a number | the same |
| stream: `JoinWindows` | attribute, shard, window | its reports until the allowed lateness has \
passed, and the statistics last emitted; a mark for {REMEMBERED_WINDOWS} windows more | more, unless \
`shards` is raised |
| stream: `FirePanes` | attribute, window | one statistic per group, for {REMEMBERED_WINDOWS} windows more | \
the same; more with groups |

No key, window or accumulator belongs to a single user. Users are hashed to shards ([decision \
5](decisions/README.md)). A shard is joined over columns and yields a statistic whose size the \
study determines. Statistics add up, so after the join nothing depends on the number of users. Report ids \
are stored as long as reports: in a stream, until the window has expired. In a stream, sliding windows store \
a report as many times as they overlap; in batch, once. A field with very many groups makes one \
statistic for each of at most 5,000 groups of a shard, or twice the cap if that is more ([decision \
38](decisions/README.md)).
"""
