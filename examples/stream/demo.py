"""A stream on this machine: a server, clients that keep reporting, and ``ldpbeam stream``.

    python examples/stream/demo.py [--kafka] [--seconds 60] [--rate 5000]

The server is one of Pub/Sub, or a Kafka broker.

The minutes people report grow and shrink over a minute or two; as each window of ten seconds closes, its
estimates are printed beside the truth, which only this script knows.
"""

import argparse
import contextlib
import json
import multiprocessing
import queue
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import client
import numpy as np
import servers
from numpy.typing import NDArray
from ports import NoServerError

from ldpbeam.schemas.study.yaml_file import read_study
from ldpbeam.times import milliseconds

STUDY = Path(__file__).with_name("rides.yaml")
WINDOW = 10_000
#: What a terminal and a supervisor end programs with.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: The true minutes of a window's people, by its start in epoch milliseconds.
Truth = dict[int, list[NDArray[np.float64]]]


def keep_reporting(server: servers.PubSub | servers.Kafka, rate: int, truths: Any, stop: Any) -> None:
    """People who answer both services, so many reports a second; half a second's together, out of order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the script, which sets the event
    study, rng = read_study(STUDY), np.random.default_rng()
    send = server.sender()
    people, number = rate // 4, 0
    due = time.monotonic()
    while not stop.is_set():
        now = time.time_ns() // 1_000_000
        times = now - rng.integers(0, 500, people)
        middle = 0.35 + 0.15 * np.sin(now / 15_000)
        minutes = 180 * rng.beta(12 * middle, 12 * (1 - middle), people)
        for window in np.unique(times // WINDOW):
            truths.put((int(window) * WINDOW, minutes[times // WINDOW == window]))
        users = [f"person-{number + i}" for i in range(people)]
        number += people
        for sent in client.perturbed(study, "minutes", minutes, users, times, None):
            send(list(client.in_batches(sent, 500)))
        due += 0.5
        time.sleep(max(0.0, due - time.monotonic()))


def beside_the_truth(record: dict[str, Any], truth: Truth) -> str | None:
    """A line for the distribution of a closed window."""
    window = milliseconds(record["window_start"])
    if record["name"] != "together" or window not in truth:
        return None
    minutes = np.concatenate(truth[window])
    pane = record["pane_timing"].replace("_", " ") + ("" if record["complete"] else ", incomplete")
    return (
        f"{record['window_start'][11:19]}  {record['users']:>9,} people  mean {record['mean']:6.2f} (true "
        f"{minutes.mean():6.2f})  median {record['quantiles']['0.5']:6.2f} (true {np.median(minutes):6.2f})  "
        f"{pane}"
    )


def main() -> int:
    """Start everything, print, and stop everything."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kafka", action="store_true", help="a Kafka broker in place of a Pub/Sub server")
    parser.add_argument("--seconds", type=float, default=60, help="how long clients report")
    parser.add_argument("--rate", type=int, default=5_000, help="reports a second")
    parser.add_argument("--output", help="folder of the run's outputs; by default a temporary one")
    options = parser.parse_args()
    for number in STOPS:
        signal.signal(number, interrupt)
    with (
        tempfile.TemporaryDirectory() as temporary,
        servers.running_kafka() if options.kafka else servers.running_pubsub() as server,
    ):
        print(server.name)
        receive = server.receiver()
        command = [sys.executable, "-m", "ldpbeam.command_line.main", "stream", "--study", str(STUDY)]
        command += [*server.options, "--max-disorder", "2s", "--drain"]
        command += ["--output", options.output or temporary]
        truths: Any = multiprocessing.Queue()
        stop = multiprocessing.Event()
        clients = multiprocessing.Process(target=keep_reporting, args=(server, options.rate, truths, stop))
        # Ctrl-C is for this script, which then asks the stream to stop.
        stream = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert stream.stdout is not None
        truth: Truth = {}
        interrupted = False
        try:
            print(stream.stdout.readline(), end="", flush=True)
            clients.start()
            until = time.monotonic() + options.seconds
            seen: set[int] = set()
            # A stream that is behind still gets to every window that is over, as all but the last one are.
            while clients.is_alive() or set(truth) - seen - {max(truth, default=0)}:
                if stream.poll() is not None:
                    break
                if time.monotonic() >= until:
                    stop.set()
                seen |= print_estimates(receive, truths, truth)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            for number in STOPS:
                signal.signal(number, signal.SIG_IGN)
            stop.set()
            stream.send_signal(signal.SIGTERM)
            said, _ = stream.communicate()
            if clients.pid is not None:
                clients.join(10)
        accounting = [line for line in said.splitlines() if " reports in = " in line]
        if interrupted:
            print("\ninterrupted:", *(accounting or ["before a report came in"]), file=sys.stderr)
            return 130
        print("\n".join(accounting))
        if options.output is None:
            print("its outputs were in a temporary folder, which is deleted; --output FOLDER keeps them")
        return stream.returncode


def interrupt(*_: object) -> None:
    """Whoever ends this script ends what it started too."""
    raise KeyboardInterrupt


def print_estimates(receive: servers.Receive, truths: Any, truth: Truth) -> set[int]:
    """Print the estimates that are there within two seconds; the starts of their windows."""
    received = receive()
    with contextlib.suppress(queue.Empty):
        while True:
            window, minutes = truths.get_nowait()
            truth.setdefault(window, []).append(minutes)
    windows = set()
    for message in received:
        record = json.loads(message)
        line = beside_the_truth(record, truth)
        if line is not None:
            print(line, flush=True)
        windows.add(milliseconds(record["window_start"]))
    return windows


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoServerError as error:
        sys.exit(str(error))
