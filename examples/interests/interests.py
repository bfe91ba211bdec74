"""Estimate interests from browsers that send one record for eight features, beside the truth.

python examples/interests/interests.py [--people N]
"""

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

from client import record

import ldpbeam as ldp
from ldpbeam.command_line.main import main as ldpbeam
from ldpbeam.folders.read import read_estimates

HERE = Path(__file__).parent
SHARES = (0.8, 0.12, 0.06, 0.02)


def main() -> int:
    """Write records, estimate them, and print each share with the true one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--people", type=int, default=50_000)
    people, draw = parser.parse_args().people, Random(5)
    attributes = list(ldp.Study.from_yaml(HERE / "study.yaml").attributes)
    people_have = [draw.choices(range(4), SHARES, k=len(attributes)) for _ in range(people)]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "records.jsonl").write_text(
            "\n".join(record(features, 4, draw) for features in people_have)
        )
        given = ["--study", str(HERE / "study.yaml"), "--input", f"{folder}/records.jsonl"]
        ldpbeam(["estimate", *given, "--output", f"{folder}/out"])
        estimates = list(read_estimates(f"{folder}/out/estimates.jsonl"))
    for place, estimate in enumerate(estimates):
        shares = [sum(features[place] == value for features in people_have) / people for value in range(4)]
        pairs = zip(estimate.frequencies or (), shares, strict=True)
        print(f"{estimate.attribute:12}", *(f"{share:.4f} ({true:.4f})" for share, true in pairs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
