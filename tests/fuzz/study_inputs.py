"""Study files: YAML whose keys, values, nesting, anchors and characters are changed line by line."""

from __future__ import annotations

import functools
from pathlib import Path
from random import Random

from fuzz.mutations import edge, mutated

_EXAMPLES = Path(__file__).parents[2] / "examples"
_ODD = (
    "", "~", "yes", "[]", "{}", "[0, 1]", "{a: 1}", "1e400", "-1e400", ".nan", ".inf", "0x1F", "0o17",
    "1_000", "1:30", "2026-01-01", "2026-01-01T00:00:00Z", "'", '"', "\"\\x00\"", "\"\\ud800\"",
    "!!python/object:os.system x", "!!int x", "!!binary aGk=", "!!set {a}", "!!timestamp x", "!!float yes",
    "!!null x", "!!bool 3", "!x y", "&a [*a]", "*a", "<<: *a", "? a", "- a", "| \n  a", "> a", "1h", "10m",
    "0s", "-5m", "999999999999d", "\t", "\x1b[2J", "é", "\u202e", "%TAG", "---", "...", "# x", "a: b: c",
    "numeric", "square_wave", "minutes", "1" * 5_000, "1e-400", "..", "x" * 3_000,
)  # fmt: skip


@functools.cache
def seeds() -> tuple[bytes, ...]:
    """The study files of the examples."""
    return tuple(path.read_bytes() for path in sorted(_EXAMPLES.glob("**/*.yaml")))


def study(rng: Random) -> bytes:
    """A study file."""
    if rng.random() < 0.02:
        return _hostile(rng)
    found = rng.choice(seeds()).decode().splitlines()
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        rng.choice((_value, _value, _value, _key, _drop, _copy, _indent))(rng, found)
    data = "\n".join(found).encode("utf-8", "surrogatepass")
    return mutated(rng, data, seeds(), 3) if rng.random() < 0.2 else data


def _value(rng: Random, found: list[str]) -> None:
    """Replace a value: after a colon, or inside of brackets."""
    at = rng.randrange(len(found))
    line = found[at]
    starts = [n + 1 for n, letter in enumerate(line) if letter in ":,[{"]
    if starts:
        start = rng.choice(starts)
        ends = [n for n, letter in enumerate(line) if letter in ",]}" and n > start] + [len(line)]
        found[at] = f"{line[:start]} {_word(rng)}{line[rng.choice(ends[:2]) :]}"


def _key(rng: Random, found: list[str]) -> None:
    at = rng.randrange(len(found))
    indent = len(found[at]) - len(found[at].lstrip())
    words = (_word(rng), *(line.strip().partition(":")[0] for line in rng.choices(found, k=3)))
    found.insert(at, " " * indent + rng.choice(words) + ": " + _word(rng))


def _word(rng: Random) -> str:
    return str(edge(rng)) if rng.random() < 0.15 else rng.choice(_ODD)


def _drop(rng: Random, found: list[str]) -> None:
    if len(found) > 1:
        del found[rng.randrange(len(found))]


def _copy(rng: Random, found: list[str]) -> None:
    found.insert(rng.randrange(len(found) + 1), rng.choice(found))


def _indent(rng: Random, found: list[str]) -> None:
    at = rng.randrange(len(found))
    found[at] = rng.choice(("  " + found[at], found[at][1:], found[at].lstrip(), "\t" + found[at]))


def _hostile(rng: Random) -> bytes:
    width, depth = rng.choice((2, 8, 8)), rng.choice((3, 10, 30, 400))
    aliases = "\n".join(
        f"k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" if n else "k0: &a0 [x]" for n in range(depth)
    )
    deep = rng.choice((50, 3_000, 30_000))
    return rng.choice(
        (
            aliases,
            "study: " + "[" * deep,
            "study: " + "[" * deep + "]" * deep,
            "study: x\nattributes: " + "{a: " * deep + "1" + "}" * deep,
            "\n".join(" " * n + "a:" for n in range(min(deep, 3_000))),
            "study: x\nattributes: {" + ", ".join(f"a{n}: {{}}" for n in range(deep)) + "}",
            "- " * deep,
            "study: &a {<<: *a}\nattributes: *a",
            "study: x\n" + "&a " * 40 + "\n" + "*a " * 40,
            "\ufeffstudy: x\nattributes: {}",
            "study: x\nattributes:\n  x: {domain: {categories: " + str(10 ** rng.randrange(30)) + "}}",
        )
    ).encode()
