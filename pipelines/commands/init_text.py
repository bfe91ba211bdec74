"""The commented text of a first study."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from ldpbeam.domains import as_text

#: The warning about a range, or categories, that were proposed from data.
EXPOSURE = (
    "{what} proposed from the values in {data}. If these are the people who report, it reveals something "
    "about them that no epsilon protects. Keep it only if the data is public, or a sample of other people; "
    "else write what you know without looking at it."
)


@dataclass(frozen=True)
class Draft:
    """What a first study says.

    Attributes:
        name: the study's name.
        attribute: the attribute's name.
        range: (low, high) of a number; None for categories.
        step: the step of a number's values; None if people may have any number of the range.
        scale: the scale on which clients perturb a number; None for the plain range.
        categories: the categories of what is no number.
        epsilon: the epsilon of every service.
        services: the mechanism of each service.
        windows: the size of event-time windows, as in 1h; None for none.
        groups: the field of reports whose values are groups; None for none.
        users: whether reports have user ids.
        data: the file that the range or the categories were proposed from; None if the user knew them.
    """

    name: str
    attribute: str
    range: tuple[float, float] | None
    step: float | None
    scale: str | None
    categories: tuple[str, ...]
    epsilon: float
    services: Mapping[str, str]
    windows: str | None
    groups: str | None
    users: bool
    data: str | None

    @property
    def exposure(self) -> str | None:
        """What it means that the domain was taken from data; None if it was not."""
        if self.data is None:
            return None
        return EXPOSURE.format(what="The range was" if self.range else "The categories were", data=self.data)

    def text(self, schema: str) -> str:
        """The study file, whose first line names the file of its JSON Schema."""
        lines = [
            f"# yaml-language-server: $schema={schema}",
            "# `ldpbeam explain` says in sentences what this study will do, `ldpbeam plan` how precisely.",
            "format: 1",
            f"study: {_inline(self.name)}",
            "attributes:",
            f"  {_inline(self.attribute)}:",
        ]
        if self.exposure:
            # textwrap keeps some characters that end a line in YAML; Python takes them for space.
            words = " ".join(self.exposure.split())
            exposure = textwrap.wrap(words, 96, break_long_words=False, break_on_hyphens=False)
            lines += [f"    # {line}" for line in exposure]
        if self.range:
            lines += ["    # Clients clip what lies outside of the range to its ends."]
            step = ""
            if self.step is not None:
                lines += [
                    "    # All values of the file are multiples of the step, and clients round to them.",
                    "    # Leave it out if people may have other values.",
                ]
                step = f", step: {as_text(self.step)}"
            if self.scale is not None:
                lines += ["    # A few values take up most of the range, so clients perturb the logarithm."]
                step = f", scale: {self.scale}"
            ends = ", ".join(map(as_text, self.range))
            lines += [f"    domain: {{numeric: [{ends}]{step}}}"]
        else:
            lines += [
                "    # Reports name a category by its place, from 0.",
                "    domain:",
                "      categories:",
            ]
            lines += [f"        - {_inline(category)}" for category in self.categories]
        lines += [
            "    # Who collects it. Epsilon bounds what one report reveals: e to the epsilon is the largest",
            "    # ratio of the chances of a report from any two people. The epsilons of the services that a",
            "    # person answers add up.",
            "    services:",
        ]
        lines += [
            f"      {_inline(service)}: {{mechanism: {mechanism}, epsilon: {as_text(self.epsilon)}}}"
            for service, mechanism in self.services.items()
        ]
        if self.windows and self.users:
            lines += [f"      # {line}" for line in self._of_remembered_noise()]
        lines += [
            "    estimates:",
            "      # auto chooses the method by the data; `ldpbeam explain --estimators` lists all.",
            "      all: {estimator: auto}",
        ]
        if self.windows and not self.users:
            lines += ["# One estimate for each window of event time:", f"windows: {{size: {self.windows}}}"]
        elif self.windows:
            lines += [
                "# One estimate for each window of event time. joined: 1d beside size brings what a user",
                "# sent in a day together: errors of the day hold however these reports depend.",
                f"windows: {{size: {self.windows}}}",
                "# Each window spends its epsilon again. The ledger adds up what users spend over periods:",
                "# ledger: {period: 30d, cap: 100}",
                "# With a panel, users answer one window in 24, and spend the epsilon of one in that time:",
                "# panel: {windows: 24}",
            ]
        else:
            lines += ["# One estimate for each window of event time:", "# windows: {size: 1h}"]
        counted = "users" if self.users else "reports"
        lines += [
            "# One estimate for each value of a field of the reports, which no epsilon protects:",
            f"groups: {{field: {_inline(self.groups)}}}" if self.groups else "# groups: {field: region}",
            f"# Windows and groups with fewer {counted} than this are counted and not estimated:",
            "# publish: {at_least: 50}",
            "# Reports of nobody: no user id is read, and one that is there is not kept.",
            "# users: none" if self.users else "users: none",
        ]
        return "\n".join(lines) + "\n"

    def _of_remembered_noise(self) -> tuple[str, ...]:
        """A service whose clients remember their noise, and what its keys mean."""
        mechanism = "square_wave" if self.range else "grr"
        more = (
            "memo_buckets: how many values they round numbers to, a multiple of the attribute's buckets."
            if self.range
            else "as_published: true is for clients with the published constants of L-GRR and LOLOHA."
        )
        buckets = "memo_buckets: 256, " if self.range else ""
        return (
            "Clients that remember their noise reveal lifetime_epsilon of each value over all windows.",
            "The ledger assumes that a user has at most values_at_most values in a period.",
            more,
            f"kept: {{mechanism: {mechanism}, epsilon: 1, lifetime_epsilon: 2, {buckets}values_at_most: 3}}",
        )


def _inline(text: str) -> str:
    """A text as YAML writes it on one line, in quotes where it would be read as something else."""
    # YAML reads some characters that end a line as a space, if they stand there as they are.
    as_it_is = text.isprintable()
    plain = str(yaml.safe_dump([text], default_flow_style=True, allow_unicode=as_it_is, width=1_000_000))[
        1:-2
    ]
    # A study file has more numbers than YAML 1.1, such as 1e3.
    return f"'{text}'" if plain == text and re.fullmatch(r"[-+.\w]*\d[-+.\w]*", text) else plain
