"""Stateful functions driven by hand: one key's state and timers, and a whole stream of keys in this thread.

An engine runs a script in one order and keeps its state to itself. By hand, hundreds of schedules run in a
second, keys and stages take turns in any order an engine may choose, and what a key keeps can be looked at.
"""

from __future__ import annotations

import inspect
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.core import _StateDoFnParam, _TimerDoFnParam
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    StateSpec,
    TimerSpec,
    get_dofn_specs,
    is_stateful_dofn,
)
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.reports.batches import WATERMARK
from ldpbeam.transforms.windows.panes import _Window
from ldpbeam.transforms.windows.piece_keys import PieceKey, WindowKey
from ldpbeam.transforms.windows.split import Split
from ldpbeam.transforms.windows.unbounded import FoldStream
from support.pane_runs import Streamed
from support.pane_scripts import Step

#: The watermark at the end of a stream, and when a timer fires that is not set.
END, NEVER = 2**53, 2**60


class _Cell:
    """A state's values as bytes, as an engine keeps them."""

    def __init__(self, spec: StateSpec) -> None:
        self.spec = spec
        self.encoded: list[bytes] = []

    def add(self, value: Any) -> None:
        if isinstance(self.spec, CombiningValueStateSpec):
            value = self.spec.combine_fn.add_input(self._accumulator(), value)
            self.encoded.clear()
        self.encoded.append(self.spec.coder.encode(value))

    def write(self, value: Any) -> None:
        self.encoded = [self.spec.coder.encode(value)]

    def read(self) -> Any:
        values = [self.spec.coder.decode(one) for one in self.encoded]
        if isinstance(self.spec, BagStateSpec):
            return values
        if isinstance(self.spec, CombiningValueStateSpec):
            return self.spec.combine_fn.extract_output(self._accumulator())
        return values[0] if values else None

    def clear(self) -> None:
        self.encoded.clear()

    def _accumulator(self) -> Any:
        combine = self.spec.combine_fn
        return self.spec.coder.decode(self.encoded[0]) if self.encoded else combine.create_accumulator()


class _Timer:
    def __init__(self, name: str, timers: dict[str, Timestamp]) -> None:
        self.name, self.timers = name, timers

    def set(self, time: Timestamp) -> None:
        self.timers[self.name] = time

    def clear(self) -> None:
        self.timers.pop(self.name, None)


class Key:
    """One key of a stateful function."""

    def __init__(self, function: beam.DoFn, key: Any) -> None:
        self.function, self.key = function, key
        self.timers: dict[str, Timestamp] = {}
        states, timers = get_dofn_specs(function)
        self._cells = {spec.name: _Cell(spec) for spec in states}
        self._callbacks = {_name(spec): spec._attached_callback.__name__ for spec in timers}

    @property
    def kept(self) -> set[str]:
        """The states that hold something, and the timers that are set."""
        states = {name for name, cell in self._cells.items() if cell.encoded}
        return states | set(self.timers)

    @property
    def next(self) -> int:
        """When its next timer fires, in epoch milliseconds; :data:`NEVER` without one."""
        return min((time.micros // 1000 for time in self.timers.values()), default=NEVER)

    def come(self, value: Any) -> list[Any]:
        """What it gives for an element."""
        return self._call("process", (self.key, value))

    def fire(self, name: str | None = None) -> list[Any]:
        """What it gives when a timer fires, by default the next."""
        name = name or min(self.timers, key=lambda name: (self.timers[name], name))
        self._time = self.timers.pop(name)
        return self._call(self._callbacks[name])

    def advance(self, watermark: int) -> list[Any]:
        """What it gives while the watermark moves on, epoch milliseconds."""
        given = []
        while self.next <= watermark:
            given += self.fire()
        return given

    def _call(self, name: str, *arguments: Any) -> list[Any]:
        method = getattr(self.function, name)
        parameters = inspect.signature(method).parameters.items()
        given = {place: self._given(own.default) for place, own in parameters if _is_given(own.default)}
        return list(method(*arguments, **given) or ())

    def _given(self, parameter: Any) -> Any:
        if isinstance(parameter, _StateDoFnParam):
            return self._cells[parameter.state_spec.name]
        if isinstance(parameter, _TimerDoFnParam):
            return _Timer(_name(parameter.timer_spec), self.timers)
        return self._time if parameter == beam.DoFn.TimestampParam else self.key


def _name(spec: TimerSpec) -> str:
    return str(spec.name.removeprefix("ts-"))


def _is_given(default: Any) -> bool:
    return isinstance(default, type(beam.DoFn.KeyParam))


def _plain(emitted: Any) -> Any:
    """What the end of a bundle emits, as the rest of the bundle emits it."""
    return beam.pvalue.TaggedOutput(emitted.tag, emitted.value.value) if hasattr(emitted, "tag") else emitted


def main_and_counts(given: Iterable[Any]) -> tuple[list[Any], Counter[str]]:
    """What a function gave, its counts added up."""
    main, counts = [], Counter[str]()
    for one in given:
        if isinstance(one, beam.pvalue.TaggedOutput):
            counts[one.value[0]] += one.value[1]
        else:
            main.append(one)
    return main, counts


class StreamByHand:
    """The stream's stages of time, as ``stream`` of the scenarios wires them, in this thread.

    Args:
        study: the study.
        shards: of users.
        order: in which keys and stages take turns, where an engine may choose.
    """

    def __init__(self, study: Study, shards: int, order: random.Random) -> None:
        assert study.windows is not None
        self.order = order
        stages = FoldStream(study, shards)
        self.fold = stages.fold
        self.branches = [
            (Split(stages.cut.pieces, clock=True), stages.function),
            (Split(stages.cut_alone.pieces, clock=True), stages.alone),
        ]
        if stages.longer is not None:
            self.branches.append((Split(stages.cut_longer.pieces, clock=True), stages.longer))
        self.pane = _Window(study)
        self.joins: dict[tuple[int, PieceKey], Key] = {}
        self.windows: dict[WindowKey, Key] = {}
        self.streamed = Streamed([], Counter())
        self._reached = -NEVER

    def run(self, script: Iterable[Step], marked: bool = True) -> Streamed:
        """Run a script to its end."""
        for step in script:
            self.advance(step.watermark)
            self.bundle(step, marked)
            if self.order.random() < 0.5:
                self.advance(step.watermark)
        self.advance(END)
        return self.streamed

    def bundle(self, step: Step, marked: bool = True) -> None:
        """Batches that come together."""
        taken = []
        for place, (split, _) in enumerate(self.branches):
            split.start_bundle()
            given: list[Any] = []
            for batch in step.batches:
                # Longer windows have the reports that are compared in the windows inside.
                batch = self.fold.apart(batch)[place % 2]
                if not batch.num_rows:
                    continue
                mark = {WATERMARK: str(step.watermark).encode()} if marked else {}
                given += split.process(batch.replace_schema_metadata({**batch.schema.metadata, **mark}))
            pieces, counts = main_and_counts([*given, *map(_plain, split.finish_bundle())])
            # Longer windows count nothing: their reports are counted in the windows inside.
            self.streamed.counts.update(counts if place < 2 else {})
            taken += [(place, piece.value) for piece in pieces]
        self.order.shuffle(taken)
        for place, (key, piece) in taken:
            function = self.branches[place][1]
            if is_stateful_dofn(function):
                held = self.joins.setdefault((place, key), Key(function, key))
                self._joined(held.come(piece), place)
            else:
                self._joined(function.process((key, piece)), place)

    def advance(self, watermark: int) -> None:
        """The watermark moves on and timers fire; that of the last stage never passes a timer before it."""
        while due := [(place, key) for (place, _), key in self.joins.items() if key.next <= watermark]:
            first = min(key.next for _, key in due)
            self._fire_windows(first, sometimes=True)
            place, chosen = self.order.choice([own for own in due if own[1].next == first])
            self._joined(chosen.fire(), place)
        self._fire_windows(watermark)

    def _joined(self, given: Iterable[Any], place: int) -> None:
        gains, counts = main_and_counts(given)
        self.streamed.counts.update(counts if place < 2 else {})
        for key, gained in gains:
            self._fired(self.windows.setdefault(key, Key(self.pane, key)).come(gained))

    def _fire_windows(self, watermark: int, sometimes: bool = False) -> None:
        self._reached = max(self._reached, watermark)
        for key in self.order.sample(list(self.windows.values()), len(self.windows)):
            if not sometimes or self.order.random() < 0.5:
                self._fired(key.advance(self._reached))

    def _fired(self, given: Iterable[tuple[str, list[Snapshot]]]) -> None:
        self.streamed.panes.extend(snapshots for _, snapshots in given)
