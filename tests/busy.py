"""``python tests/busy.py BUSY ROUNDS [pytest arguments]``: the tests, while other processes use the cores."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys


def spin() -> None:
    """Keep one core busy."""
    while True:
        pass


def main(busy: int, rounds: int, arguments: list[str]) -> int:
    """Run the tests some times in a row; gives the exit code of the first round that fails, else 0."""
    # Daemons: they end with this process, however it ends but by SIGKILL.
    spinning = [multiprocessing.Process(target=spin, daemon=True) for _ in range(busy)]
    for process in spinning:
        process.start()
    try:
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}, beside {busy} busy processes", flush=True)
            code = subprocess.run([sys.executable, "-m", "pytest", *arguments]).returncode
            if code:
                return code
        return 0
    finally:
        for process in spinning:
            process.kill()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
