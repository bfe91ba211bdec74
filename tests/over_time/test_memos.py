"""What a client remembers: the pseudo-random function, and the reports that are made with it."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.given_draws import Given

import ldpbeam as ldp
from ldpbeam import Categories, Numeric, build_mechanism
from ldpbeam.mechanisms import SecureUniforms
from ldpbeam.memoised import Lifetime, Memo, memos
from ldpbeam.memoised.memos import draws_of
from ldpbeam.schemas.reports.stamps import memo_of
from ldpbeam.schemas.study.yaml_file import parse_study

KEY = bytes(range(16))
NUMBERS = ("stochastic_rounding", "square_wave", "piecewise")
NAMES = ("grr", "oue", "sue", "olh", *NUMBERS)


def study_of(name: str) -> ldp.Study:
    kind = "{numeric: [0, 10]}\n    buckets: 32" if name in NUMBERS else "{categories: [a, b, c, d, e]}"
    service = f"{{mechanism: {name}, epsilon: 1, lifetime_epsilon: 2}}"
    return parse_study(
        f"study: s\nattributes:\n  x:\n    domain: {kind}\n    services:\n      app: {service}\n"
    )


def memo(name: str) -> Memo:
    study = study_of(name)
    return memo_of(study, study.attribute("x"), 0)


def test_the_function_is_the_one_of_the_document_byte_by_byte() -> None:
    fields = ["ldpbeam memo 1", "s", "x", "app", "", "olh", "1024,index"]
    fields += [",".join(map(str, memo("olh").steps.constants)), memo("olh").domain, "answer", "3"]
    text = b"".join(len(field).to_bytes(4, "big") + field.encode() for field in fields)
    assert memo("olh").text("answer", "3") == text
    blocks = [hmac.new(KEY, text + block.to_bytes(4, "big"), hashlib.sha256).digest() for block in (0, 1)]
    stream = b"".join(blocks)
    expected = [int.from_bytes(stream[8 * k : 8 * k + 8], "little") >> 11 for k in range(6)]
    assert draws_of(KEY, text, 6).tolist() == expected


def test_another_input_of_the_function_draws_other_memos() -> None:
    original = memo("olh")
    lifetime = original.lifetime
    named: Any = lifetime.named
    others = [
        replace(original, study="t"),
        replace(original, attribute="y"),
        replace(original, service="web"),
        replace(original, version="2"),
        replace(original, domain="0" * 32),
        # Fields are told apart by their lengths.
        replace(original, study="sx", attribute=""),
        replace(original, lifetime=replace(lifetime, epsilon=2.0000000001)),
        replace(original, lifetime=replace(lifetime, named=replace(named, seeds=2048))),
        replace(original, lifetime=replace(lifetime, named=replace(named, hashed="text"))),
        replace(original, lifetime=replace(lifetime, named=replace(named, hashes=5))),
        replace(
            original, lifetime=replace(lifetime, named=build_mechanism("grr", Categories(tuple("abcd")), 1))
        ),
    ]
    numbers = [
        Memo("s", "x", "app", "", "d", Lifetime(build_mechanism(name, Numeric(0, 1), 1.0), 2.0, False, many))
        for name in NUMBERS
        for many in (32, 64)
    ]
    bits = [
        Memo("s", "x", "app", "", "d", Lifetime(build_mechanism(name, Categories(tuple("abcde")), 1.0), 2.0))
        for name in ("oue", "sue")
    ]
    texts = [each.text("answer", "0") for each in (original, *others, *numbers, *bits)]
    texts += [original.text("answer", "1"), original.text("seed", ""), original.text("seed", "0")]
    drawn = [tuple(draws_of(KEY, text, 4).tolist()) for text in texts]
    drawn += [tuple(draws_of(key, texts[0], 4).tolist()) for key in (KEY + b"\1", bytes(16))]
    assert len({draw for four in drawn for draw in four}) == 4 * len(drawn)


def test_the_epsilon_of_a_window_is_no_input_so_the_lifetime_epsilon_is_not_spent_anew() -> None:
    slow, fast = (
        Memo("s", "x", "app", "", "d", Lifetime(build_mechanism("oue", Categories(tuple("ab")), eps), 2.0))
        for eps in (0.5, 1.0)
    )
    assert slow.text("answer", "1") == fast.text("answer", "1")
    assert slow.steps.kept != fast.steps.kept


@pytest.mark.parametrize("name", NAMES)
def test_a_permanent_answer_stays_and_instant_draws_never_repeat(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[float] = []
    fresh = SecureUniforms.random

    def noted(self: SecureUniforms, size: int) -> Any:
        found = fresh(self, size)
        drawn.extend(found.tolist())
        return found

    monkeypatch.setattr(SecureUniforms, "random", noted)
    own = memo(name)
    values = np.full(2_000, 0.3 if name in NUMBERS else 2)
    reports = own.perturb([KEY] * 2_000, values)
    assert len(drawn) == 2_000 * own.steps.draws_of_answer == len(set(drawn))
    assert len(np.unique(reports)) > 1
    inputs = np.full(50, 3)
    assert len(np.unique(own.permanent([KEY] * 50, inputs), axis=0)) == 1
    again = memo(name)
    assert (again.permanent([KEY], inputs[:1]) == own.permanent([KEY], inputs[:1])).all()
    keys = [bytes([k]) * 16 for k in range(50)]
    assert len(np.unique(own.permanent(keys, inputs), axis=0)) > 1


def test_local_hashing_has_one_seed_for_life_and_a_memo_for_each_hash_value() -> None:
    own = memo("olh")
    named: Any = own.lifetime.named
    reports = own.perturb([KEY] * 500, np.arange(500) % 5)
    (seed,) = set(reports["seed"].tolist())
    assert seed == own.seeds([KEY])[0]
    hashes = named.hash(np.arange(5), np.full(5, seed))
    same = [(a, b) for a in range(5) for b in range(a) if hashes[a] == hashes[b]]
    assert same, "choose a key under which two categories have the same hash"
    with_it = own.permanent([KEY] * 5, hashes.astype(np.int64))[:, 0]
    assert all(with_it[a] == with_it[b] for a, b in same)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (None, "service 'app': its clients remember their noise .*: give device_key, 16 random bytes"),
        (bytes(15), "device_key must be 16 random bytes or more, found 15"),
        ("0123456789abcdef", "device_key must be 16 random bytes or more, found str"),
    ],
)
def test_a_client_that_remembers_needs_a_device_key(key: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        ldp.Client(study_of("grr"), "x", "app", device_key=key)
    assert "\n" not in str(refused.value)


def test_a_device_key_is_of_one_user_and_of_a_service_that_remembers() -> None:
    client = ldp.Client(study_of("grr"), "x", "app", device_key=KEY)
    for users, sentence in [(None, "give user_ids"), (["u", "v"], "user_ids names several")]:
        with pytest.raises(ValueError, match=sentence):
            client.reports(["a", "b"], users)
    assert client.reports(["a", "b"], ["u", "u"]).num_rows == 2
    assert client.report("a", "u")["payload"] in range(5)
    plain = parse_study(
        "study: s\nattributes:\n  x:\n    domain: {categories: [a, b]}\n    services:\n      app: "
        "{mechanism: grr, epsilon: 1}\n"
    )
    with pytest.raises(ValueError, match="device_key is for services with a lifetime_epsilon"):
        ldp.Client(plain, "x", "app", device_key=KEY)


def test_a_version_with_fresh_noise_needs_no_device_key() -> None:
    service = (
        "{mechanism: grr, epsilon: 1, version_field: v, versions: {old: {}, new: {lifetime_epsilon: 2}}}"
    )
    study = parse_study(
        "study: s\nattributes:\n  x:\n    domain: {categories: [a, b]}\n    services:\n      app: "
        f"{service}\n"
    )
    assert ldp.Client(study, "x", "app", version="old").report("a", "u")["v"] == "old"
    with pytest.raises(ValueError, match="give device_key"):
        ldp.Client(study, "x", "app", version="new")
    assert ldp.Client(study, "x", "app", version="new", device_key=KEY).report("a", "u")["v"] == "new"


def test_reports_in_blocks_are_those_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    own, keys = memo("oue"), [bytes([k]) * 16 for k in range(7)]
    draws = np.random.default_rng(3).random(35)
    whole = own.perturb(keys, np.arange(7) % 5, Given(draws.tolist()))
    monkeypatch.setattr(memos, "BLOCK_DRAWS", 12)
    assert (own.perturb(keys, np.arange(7) % 5, Given(draws.tolist())) == whole).all()
    assert len(own.perturb([], np.zeros(0))) == 0


PERTURB = """\
study: s
attributes:
  x:
    domain: {categories: [a, b, c]}
    services:
      app: {mechanism: oue, epsilon: 19, lifetime_epsilon: 20}
      fresh: {mechanism: grr, epsilon: 1}
"""


# Where it needs the file, and where not: tests/pipelines/test_refusals.
def test_perturb_gives_each_user_a_key_of_the_device_key_file(tmp_path: Path, command: Any) -> None:
    (tmp_path / "study.yaml").write_text(PERTURB)
    (tmp_path / "people.csv").write_text("who,x\n" + "".join(f"u{k},a\n" for k in range(40)))
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "key").chmod(0o600)

    def run(output: str, *more: str) -> Any:
        return command(
            "perturb", "--study", str(tmp_path / "study.yaml"), "--attribute", "x", "--value-column", "x",
            "--input", str(tmp_path / "people.csv"), "--output", str(tmp_path / output),
            "--user-column", "who", *more,
        )  # fmt: skip

    def reports(output: str) -> dict[str, str]:
        ran = run(
            output, "--services", "app", "--format", "jsonl", "--device-key-file", str(tmp_path / "key")
        )
        assert ran.code == 0 and "can undo the permanent noise" in ran.err
        lines = (
            json.loads(line)
            for path in (tmp_path / output).rglob("*.jsonl")
            for line in path.read_text().splitlines()
        )
        return {line["user_id"]: line["payload"] for line in lines}

    # An instant step at epsilon 19 turns almost no bit, so the permanent answers are seen.
    one, again = reports("one"), reports("two")
    assert len(one) == 40 and sum(one[user] == again[user] for user in one) >= 38
    assert len(set(one.values())) > 1
