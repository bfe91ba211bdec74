"""The ledger over periods beside a dictionary: late reports, duplicates, reruns, groups, attributes, keys."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledger_model import Price, Run, lines, spent

from ldpbeam.library.tables import decoded_batches
from ldpbeam.pipelines.estimates.period_ledger import totals_of
from ldpbeam.pipelines.runs.output import Output
from ldpbeam.pipelines.runs.received import bring_together, files_of, keeping, ledger_key
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.outputs.received import WriteReceived
from ldpbeam.transforms.reports.dead_letters import Disclosure
from ldpbeam.transforms.reports.received import as_batch
from ldpbeam.transforms.reports.validation import Validation, columns_or_only
from ldpbeam.windows import EVERYTHING, Span

HOUR = 3_600_000
#: Two hours before the end of a period of a day.
START = 1_795_132_800_000 - 2 * HOUR
TEXT = """\
study: s
attributes:
  x:
    domain: {categories: 3}
    services:
      app: {mechanism: grr, epsilon: 1, lifetime_epsilon: 2, values_at_most: 2}
      web: {mechanism: grr, epsilon: 0.1}
  y:
    domain: {categories: 4}
    services: {app: {mechanism: grr, epsilon: 0.6, lifetime_epsilon: 0.7}}
windows: {size: 1h}
groups: {field: region}
ledger: {period: 1d, cap: 3.5}
"""
STUDY = parse_study(TEXT)


def instant(cells: int, lifetime: float, epsilon: float) -> float:
    """The epsilon of the instant step, by the formula of docs/over_time.md."""
    top = exp(lifetime + epsilon) + (cells - 2) * exp(epsilon) - (cells - 1)
    return log(top / (exp(lifetime) - exp(epsilon)))


PRICES = {
    ("x", "app"): Price(1.0, 2.0, 2, instant(3, 2.0, 1.0)),
    ("x", "web"): Price(0.1),
    ("y", "app"): Price(0.6, 0.7, 4, instant(4, 0.7, 0.6)),
}
KEY, OTHER_KEY = b"k" * 32, b"o" * 32


def report(place: tuple[str, str], user: int, hour: int, number: int, region: str) -> dict[str, Any]:
    attribute, service = place
    return {
        "user_id": f"u{user}",
        "attribute": attribute,
        "service": service,
        "event_time": START + hour * HOUR + number,
        "payload": number % 3,
        "region": region,
    }


@pytest.fixture(autouse=True, scope="module")
def few_rows_at_once() -> Iterator[None]:
    """Files of many batches, which are added up in many parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ldpbeam.pipelines.runs.received.ROWS_AT_ONCE", 8)
        patch.setattr("ldpbeam.schemas.outputs.received.BATCH_ROWS", 4)
        yield


reports = st.lists(
    st.builds(
        report,
        st.sampled_from(sorted(PRICES)),
        st.integers(0, 5),
        st.integers(0, 4),
        st.integers(0, 4),
        st.sampled_from("ns"),
    ),
    max_size=60,
)
spans = st.tuples(st.integers(0, 3), st.integers(1, 3)).map(
    lambda ends: (START + ends[0] * HOUR, START + (ends[0] + ends[1]) * HOUR)
)


def keep(folder: Path, run: Run, key: bytes = KEY, bundles: int = 2) -> None:
    """What a run of estimate does for the ledger, without an engine."""
    span = EVERYTHING if run.span is None else Span(*run.span)
    output = Output(STUDY, str(folder), "run")
    before = files_of([str(folder)])
    kept = keeping(output, output.path(".ledger"), ledger_key(output, key, shared=True), span)
    assert kept is not None
    validation = Validation(STUDY, span, Disclosure(user_id_key=key), kept.key)
    for place in range(bundles):
        writer = WriteReceived(kept)
        writer.start_bundle()
        for batch in decoded_batches(run.reports[place::bundles], columns_or_only(STUDY, None, None)):
            for rows in validation.validate(batch).received:
                writer.process(as_batch(rows))
        writer.finish_bundle()
    bring_together(output, kept, before)
    # What a scheduled run does with the files of spans inside its own.
    for file in before if run.span else ():
        if file.about.span != span and span.holds((file.about.start, file.about.stop)):
            Path(file.path).unlink()


def found(folder: Path) -> dict[int, dict[str, Any]]:
    totals = totals_of(STUDY, files_of([str(folder)]))
    return {
        start: {
            "users": int(own.about_values.users.sum()),
            "about_values": dict(zip(own.about_values.epsilons, own.about_values.users, strict=True)),
            "changes_included": dict(
                zip(own.changes_included.epsilons, own.changes_included.users, strict=True)
            ),
            "over": own.about_values.above(3.5),
        }
        for start, own in totals.items()
    }


def model(runs: list[Run]) -> dict[int, dict[str, Any]]:
    each = spent(runs, HOUR, 24 * HOUR, PRICES)
    return {start: lines(users, 3.5) for start, users in each.items()}


@given(reports)
def test_a_batch_run_spends_what_a_dictionary_says(
    tmp_path_factory: pytest.TempPathFactory, sent: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("batch")
    keep(folder, Run(sent))
    assert found(folder) == model([Run(sent)])


@given(st.lists(st.builds(Run, reports, spans), min_size=1, max_size=5))
def test_scheduled_runs_and_reruns_in_any_order_spend_what_a_dictionary_says(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Run]
) -> None:
    folder = tmp_path_factory.mktemp("scheduled")
    for run in runs:
        keep(folder, run)
    assert found(folder) == model(runs)
