"""What a batch run reads, keeps and writes, whether an engine runs it or not."""

from __future__ import annotations

from dataclasses import dataclass, field

from ldpbeam.folders.output import LEDGER_PARTS, Output
from ldpbeam.pipelines.runs.ledger_folder import keeping
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.outputs.ledger_parts import Keeping
from ldpbeam.transforms.reports.dead_letters import PLAIN, Disclosure
from ldpbeam.transforms.sources.batch_input import BatchInput
from ldpbeam.windows import EVERYTHING, Span

#: A shard of users holds about this many bytes of input.
SHARD_BYTES = 24 * 2**20
FEWEST_SHARDS, MOST_SHARDS = 8, 4096
#: The number of shards of users where the size of the input is not known.
OF_UNKNOWN_SIZE = 64


@dataclass(frozen=True)
class BatchJob(Output):
    """What one batch run reads, keeps and writes.

    Attributes:
        input: what is read.
        columns: the columns that are read.
        span: the event times to estimate: reports outside are out of range, and only the windows inside are
            estimated.
        disclosure: what outputs may reveal about inputs, with the HMAC key for user ids.
        shards: the number of shards of users; None for as many as the input's size needs.
        ledger_key: the key of the ledger over periods; None if the study has none.
    """

    input: BatchInput
    columns: Columns
    span: Span = EVERYTHING
    disclosure: Disclosure = PLAIN
    shards: int | None = None
    ledger_key: bytes | None = field(default=None, repr=False)

    @property
    def user_shards(self) -> int:
        """The number of shards of users, by default 8 to 4,096; results do not depend on it."""
        if self.shards is not None:
            return self.shards
        if self.input.size is None:
            return OF_UNKNOWN_SIZE
        return max(FEWEST_SHARDS, min(MOST_SHARDS, -(-self.input.size // SHARD_BYTES)))

    @property
    def keeping(self) -> Keeping | None:
        """Where workers write what users spent; None if the study has no ledger over periods."""
        return keeping(self, self.path(LEDGER_PARTS), self.ledger_key, self.span)
