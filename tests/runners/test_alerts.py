"""The alert rules for Prometheus: of metrics that exist, and each fires where it should and not elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ldpbeam.pipelines.operating.metrics import Watched, metrics_of
from ldpbeam.pipelines.spool.run import Seen
from ldpbeam.transforms.sources.lag import Lag

ROOT = Path(__file__).parents[2]
FILE = ROOT / "runners" / "prometheus" / "alerts.yaml"
RULES = {rule["alert"]: rule for rule in yaml.safe_load(FILE.read_text())["groups"][0]["rules"]}
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
READ, LATE = "ldpbeam_reports_read_total", 'ldpbeam_reports_total{outcome="late"}'
OUTSIDE = 'ldpbeam_reports_total{outcome="out_of_range"}'
WATERMARK = "ldpbeam_watermark_timestamp_seconds"
DEAD = 'ldpbeam_reports_total{outcome="dead_letters"}'
MINUTES = 150  # one sample each
#: A stream that is well: 6,000 reports per minute, of which half a percent cannot be used or are late.
WELL = {
    'up{job="ldpbeam"}': f"1+0x{MINUTES}", READ: f"0+6000x{MINUTES}", DEAD: f"0+30x{MINUTES}",
    LATE: f"0+30x{MINUTES}", OUTSIDE: f"0+30x{MINUTES}", "ldpbeam_lag_seconds": f"2+0x{MINUTES}",
    WATERMARK: f"0+60x{MINUTES}", "ldpbeam_solve_seconds_sum": f"0+20x{MINUTES}",
    "ldpbeam_fit_flagged_tests": f"0+0x{MINUTES}", "ldpbeam_damaged_files_total": f"0+0x{MINUTES}",
    'ldpbeam_resident_memory_bytes{process="command"}': f"{2**30}+0x{MINUTES}",
    'ldpbeam_resident_memory_bytes{process="engine"}': f"{2**30}+0x{MINUTES}",
}  # fmt: skip
#: The same ten minutes after a restart that counts some reports again; long ago, many could not be used.
RESTARTED = {
    **WELL,
    READ: f"0+6000x{MINUTES - 10} {6000 * (MINUTES - 10) - 500}+6000x9",
    DEAD: f"50000+30x{MINUTES - 10} {50000 + 30 * (MINUTES - 10) - 5}+30x9",
    LATE: f"50000+30x{MINUTES - 10} {50000 + 30 * (MINUTES - 10) - 5}+30x9",
    OUTSIDE: f"50000+30x{MINUTES - 10} {50000 + 30 * (MINUTES - 10) - 5}+30x9",
}
#: The last 20 minutes of :data:`WELL` alone: a stream that has just begun. At first it had no report.
BEGUN = {name: f"_x{MINUTES - 20} {values.replace(str(MINUTES), '20')}" for name, values in WELL.items()}
BEGUN_IN_SILENCE = {**BEGUN, **dict.fromkeys((READ, DEAD, LATE, OUTSIDE), f"_x{MINUTES - 20} 0x20")}
del BEGUN_IN_SILENCE[WATERMARK]
#: No report has ever moved the watermark, so that there is none.
NEVER = {name: values for name, values in WELL.items() if name != WATERMARK}
#: What is otherwise where an alert should fire.
ILL = {
    "LdpbeamDown": {'up{job="ldpbeam"}': f"0+0x{MINUTES}"},
    "LdpbeamBehind": {"ldpbeam_lag_seconds": f"301+0x{MINUTES}"},
    "LdpbeamWatermarkStands": {WATERMARK: f"60+0x{MINUTES}"},
    "LdpbeamSolvesTooSlow": {"ldpbeam_solve_seconds_sum": f"0+50x{MINUTES}"},
    "LdpbeamDeadLetters": {DEAD: f"0+66x{MINUTES}"},
    "LdpbeamLateReports": {LATE: f"0+66x{MINUTES}"},
    "LdpbeamOutOfRange": {OUTSIDE: f"0+66x{MINUTES}"},
    "LdpbeamReportsDoNotFit": {"ldpbeam_fit_flagged_tests": f"1+0x{MINUTES}"},
    "LdpbeamDamagedFiles": {"ldpbeam_damaged_files_total": f"0x{MINUTES - 10} 1x10"},
    "LdpbeamNoReports": {
        READ: f"6000+0x{MINUTES}", DEAD: f"0x{MINUTES}", LATE: f"0x{MINUTES}", OUTSIDE: f"0x{MINUTES}",
    },
    "LdpbeamMemory": {'ldpbeam_resident_memory_bytes{process="engine"}': f"{4 * 2**30}+0x{MINUTES}"},
}  # fmt: skip


def test_every_rule_is_of_metrics_that_a_stream_has() -> None:
    counts: dict[str, Any] = {"in": 0, **dict.fromkeys(("used", "duplicates", "late", "in_open_windows"), 0)}
    counts |= {"out_of_range": 0, "dead_letters": 0, "damaged_files": 0, "dead_letters_by_reason": {}}
    output: Any = SimpleNamespace(run="r", study=SimpleNamespace(name="s"))
    windows, manifest = SimpleNamespace(windows={}), SimpleNamespace(accounting=counts)
    run: Any = SimpleNamespace(manifest=manifest, lag=Lag(0, 0), reached=0, windows=windows, unsolved=0)
    run.seen = Seen()
    names = {sample.name for metric in metrics_of(Watched(output, run)) for sample in metric.samples}
    for rule in RULES.values():
        assert set(re.findall(r"\bldpbeam_\w+", rule["expr"])) <= names
    assert {re.sub("{.*", "", series) for series in WELL} - {"up"} <= names


def test_every_rule_has_a_row_in_the_page_for_operators() -> None:
    assert re.findall(r"^\| `(Ldpbeam\w+)`", PAGE, re.MULTILINE) == list(RULES)


def case(alert: str | None, series: dict[str, str]) -> dict[str, Any]:
    """A test of promtool: of the rules this one fires, or none does."""
    firing = [] if alert is None else [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
    return {
        "name": str(alert),
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{MINUTES}m",
                "exp_samples": firing,
            }
        ],
    }


def test_a_rule_fires_where_something_is_wrong_and_nowhere_else(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        sentence = "promtool is not here: it comes with Prometheus (apt-get install prometheus)"
        if os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    cases = {
        "rule_files": [str(FILE)],
        "tests": [
            *(case(None, well) for well in (WELL, RESTARTED, BEGUN, BEGUN_IN_SILENCE)),
            *(case(alert, {**WELL, **ILL[alert]}) for alert in RULES),
            case("LdpbeamWatermarkStands", NEVER),
        ],
    }
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
    command = [promtool, "test", "rules", str(tmp_path / "cases.yaml")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
