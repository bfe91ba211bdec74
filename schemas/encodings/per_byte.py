"""How much a byte may hold: one rule for files and messages of every format, asked before the work is done.

A byte of compressed input can stand for thousands of reports, each of which takes a microsecond or more,
good or not. Input is refused by what it declares: the footer of a Parquet file, the counts of an Avro file's
blocks, the line ends of gzipped text.
"""

from __future__ import annotations

#: The most reports for each byte: of gzipped lines, of Avro, and of columns (Parquet, Arrow), where a report
#: of an honest file has taken a bit. Other text has fewer reports than bytes.
OF_LINES, OF_RECORDS, OF_COLUMNS = 1, 3, 8
#: The most values for each byte of Avro, and of columns of Parquet: records have any number of them.
VALUES, VALUES_OF_COLUMNS = 24, 64
#: The reason of dead letters of what has more.
TOO_MANY_REPORTS = "too_many_reports"


class TooManyError(ValueError):
    """There are more reports or values than the bytes may hold."""


def check(number: int, size: int, most: float, what: str = "reports") -> None:
    """Refuse ``number`` reports in ``size`` bytes, if there are more than ``most`` for each byte.

    Raises:
        TooManyError: if there are; it says what to do.
    """
    if number > most * size:
        raise TooManyError(
            f"{number:,} {what} in {size:,} bytes are more than {most:g} for each byte, as no honest file "
            "has: drop columns of constants, or write it without compression"
        )
