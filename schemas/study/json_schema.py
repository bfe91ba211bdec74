"""The JSON Schema of study files, with which an editor completes, explains and underlines.

The models give what every study has. The mechanisms, the estimators and their options come from the
registries, so that those of other packages are in it too. It says less than ``ldpbeam explain`` checks: what
depends on several values at once (low < high, a service's name under ``estimates``) is not in it.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Iterable, Mapping
from typing import Any

from ldpbeam.domains import Categories, Domain, KeyValues, Numeric
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms.categories.randomised_response import RandomisedResponse
from ldpbeam.mechanisms.categories.unary_encoding import OptimisedUnaryEncoding
from ldpbeam.mechanisms.mechanism import LARGEST_EPSILON, SMALLEST_EPSILON, Mechanism
from ldpbeam.mechanisms.mechanism_options import options_of
from ldpbeam.mechanisms.registry import AUTO, better_oracle, registered_mechanisms
from ldpbeam.memoised import MEMOISED, MOST_MEMO_BUCKETS
from ldpbeam.options import Option, Range
from ldpbeam.schemas.study.models import EstimateModel, StudyModel
from ldpbeam.schemas.study.parts import NAME, OWN_COLUMNS
from ldpbeam.schemas.study.service_models import REMEMBERING

Schema = dict[str, Any]

#: The key of a domain in a study file, and the kind that its mechanisms are for.
_DOMAINS: Mapping[str, type[Domain]] = {
    "numeric": Numeric,
    "edges": Numeric,
    "categories": Categories,
    "candidates": Categories,
    "keys": KeyValues,
    "coordinates": Numeric,
}
_TYPES = {
    list: "array",
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    types.NoneType: "null",
}
_EPSILON: Schema = {
    "type": "number",
    "exclusiveMinimum": SMALLEST_EPSILON,
    "maximum": LARGEST_EPSILON,
    "description": "the privacy budget of one report",
}


def study_schema() -> Schema:
    """The JSON Schema (draft 2020-12) of study files."""
    schema = StudyModel.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["description"] = "A study of ldpbeam: what is estimated, from whose reports, and how."
    parts: dict[str, Schema] = schema["$defs"]
    schema["properties"]["study"]["pattern"] = NAME
    schema["properties"]["attributes"]["propertyNames"] = {"pattern": NAME}
    parts["GroupsModel"]["properties"]["field"]["not"] = {"enum": sorted(OWN_COLUMNS)}
    attribute, service, version = (parts.pop(f"{name}Model") for name in ("Attribute", "Service", "Version"))
    parts["EstimateModel"] = _estimates(parts["EstimateModel"])
    attribute["properties"]["estimates"]["propertyNames"] = {"pattern": NAME}
    domain = parts.pop("DomainModel")
    for key, kind in _DOMAINS.items():
        parts[f"Version_{key}"], parts[f"Service_{key}"] = _services(key, kind, service, version)
        parts[f"Attribute_{key}"] = _attribute(key, attribute, domain)
    schema["properties"]["attributes"]["additionalProperties"] = _one_of(
        [{"$ref": f"#/$defs/Attribute_{key}"} for key in _DOMAINS]
    )
    return schema


def _one_of(schemas: Iterable[Schema]) -> Schema:
    return {"oneOf": list(schemas)}


def _attribute(key: str, attribute: Schema, domain: Schema) -> Schema:
    """The attributes whose domain is given under ``key``."""
    changed = copy.deepcopy(attribute)
    given = [key, "values"] if key in ("keys", "coordinates") else [key]
    given += ["places"] * (key == "candidates")
    known = [*given, "step", "scale"] if key in ("numeric", "coordinates") else given
    properties = {name: _never_null(domain["properties"][name]) for name in known}
    if key == "coordinates":
        for arm in properties[key].get("anyOf", ()):
            if arm.get("type") == "array":
                arm["items"]["pattern"] = NAME
    changed["properties"]["domain"] = {
        "type": "object",
        "title": f"domain of {key}",
        "description": domain["description"],
        "properties": properties,
        "required": given,
        "additionalProperties": False,
    }
    changed["properties"]["services"]["propertyNames"] = {"pattern": NAME}
    changed["properties"]["services"]["additionalProperties"] = {"$ref": f"#/$defs/Service_{key}"}
    changed["title"] = f"attribute of {key}"
    return changed


def _never_null(schema: Schema) -> Schema:
    """A schema of an optional key, where the key is given."""
    changed = copy.deepcopy(schema)
    changed.pop("default", None)
    arms = [arm for arm in changed.get("anyOf", ()) if arm != {"type": "null"}]
    if len(arms) == 1:
        del changed["anyOf"]
        changed |= arms[0]
        return changed
    if arms:
        changed["anyOf"] = arms
    return changed


def _services(key: str, kind: type[Domain], service: Schema, version: Schema) -> tuple[Schema, Schema]:
    """The versions and the services of attributes of one kind: a choice of mechanisms with their options."""
    mechanisms = {
        name: mechanism
        for name, mechanism in registered_mechanisms().items()
        if mechanism.domain_type is kind
    }
    options: dict[str, tuple[str, Mapping[str, Option]]] = {
        name: (mechanism.summary, options_of(mechanism)) for name, mechanism in mechanisms.items()
    }
    if kind is Categories:
        options = {AUTO: ("GRR or OLH, whichever has the lower variance", _of_auto(mechanisms)), **options}
    remembered = _remembered(key, service)
    common = {
        name: schema
        for name, schema in version["properties"].items()
        if name not in ("mechanism", "epsilon", "rate", *REMEMBERING)
    }
    rate = (
        {"rate": _never_null(version["properties"]["rate"])}
        if RandomisedResponse in mechanisms.values()
        else {}
    )

    def others(name: str, shared: Mapping[str, Any]) -> Mapping[str, Any]:
        mechanism = mechanisms.get(name)
        remembering = remembered if mechanism in MEMOISED else {}
        return {**shared, **remembering, **(rate if mechanism is RandomisedResponse else {})}

    named = [_choice(name, *described, others(name, common)) for name, described in options.items()]
    # A version that names no mechanism has the service's, whichever that is.
    every = {option.name: _option(option) for _, given in options.values() for option in given.values()}
    either = {**remembered, **dict.fromkeys(every, True)}
    inherited = _mapping("as the service", {"epsilon": _EPSILON, **rate, **common, **either})
    versions = _one_of([inherited, *named])
    auto_options = {
        "version_field": _never_null(service["properties"]["version_field"])
        | {"not": {"enum": sorted(OWN_COLUMNS)}},
        "payload": _never_null(service["properties"]["payload"]),
        "versions": {
            "type": "object",
            "description": "what differs between the versions of the clients, by the version's name",
            "propertyNames": {"pattern": NAME},
            "additionalProperties": {"$ref": f"#/$defs/Version_{key}"},
        },
    }
    alternatives = []
    for name, described in options.items():
        choice = _choice(name, *described, others(name, auto_options))
        # Versions may give epsilon, and then the service need not.
        choice["anyOf"] = [{"required": [key]} for key in ("epsilon", "rate", "other", "versions")]
        properties = choice["properties"]
        stated = {RandomisedResponse: "replacement", OptimisedUnaryEncoding: "other"}
        if of_mechanism := stated.get(mechanisms.get(name, Mechanism)):
            properties[of_mechanism] = _never_null(service["properties"][of_mechanism])
        for key in {"epsilon", "rate", *described[1]} & set(properties):
            properties[key] = _or_by_field(properties[key])
        alternatives.append(choice)
    only_versions = _mapping(
        "the versions name their mechanisms", {"epsilon": _EPSILON, **auto_options, **either}
    )
    only_versions["required"] = ["versions"]
    services = _one_of([*alternatives, only_versions])
    services["description"] = service["description"].partition("\n")[0]
    return versions, services


def _or_by_field(schema: Schema) -> Schema:
    """A schema of a key whose value may be said by a field of the report, if it is a number."""
    arms = schema.get("anyOf", [schema])
    if not any(arm.get("type") in ("integer", "number") for arm in arms):
        return schema
    shared = {name: schema[name] for name in ("description", "default") if name in schema}
    return shared | {"anyOf": [*arms, {"$ref": "#/$defs/ByFieldModel"}]}


def _remembered(key: str, service: Schema) -> Schema:
    """The keys of clients that remember their noise, where reports of this kind can have it."""
    given = {
        "candidates": ("as_published",),
        "categories": ("as_published",),
        "numeric": ("memo_buckets",),
        "edges": ("memo_buckets",),
    }.get(key)
    if given is None:
        return {}
    names = ("lifetime_epsilon", "values_at_most", *given)
    properties = {name: _never_null(service["properties"][name]) for name in names}
    properties["lifetime_epsilon"] |= {"exclusiveMinimum": SMALLEST_EPSILON, "maximum": LARGEST_EPSILON}
    if "memo_buckets" in properties:
        properties["memo_buckets"] |= {"minimum": 2, "maximum": MOST_MEMO_BUCKETS}
    return properties


def _of_auto(mechanisms: Mapping[str, type[Mechanism]]) -> Mapping[str, Option]:
    """The options of the two mechanisms that ``auto`` chooses from: for few and for many categories."""
    chosen = (better_oracle(size, 1.0) for size in (2, 2**20))
    return {
        name: option for mechanism in chosen for name, option in options_of(mechanisms[mechanism]).items()
    }


def _choice(name: str, summary: str, options: Mapping[str, Option], others: Mapping[str, Any]) -> Schema:
    """A mapping that names this mechanism."""
    schema = _mapping(
        name,
        {
            "mechanism": {"const": name, "description": summary},
            "epsilon": _EPSILON,
            **{option.name: _option(option) for option in options.values()},
            **others,
        },
    )
    return schema | {"description": summary, "required": ["mechanism"]}


def _mapping(title: str, properties: Mapping[str, Any]) -> Schema:
    return {
        "type": "object", "title": title, "properties": dict(properties), "additionalProperties": False,
    }  # fmt: skip


def _option(option: Option) -> Schema:
    arms = [_kind(kind.type, kind.range, kind.choices) for kind in option.kinds]
    schema = arms[0] if len(arms) == 1 else ({"anyOf": arms} if arms else {})
    description = {"description": option.text} if option.text else {}
    return schema | description | {"default": option.default}


def _kind(kind: type, numbers: Range, choices: tuple[str, ...]) -> Schema:
    schema: Schema = {"type": _TYPES[kind]}
    if choices:
        schema["enum"] = list(choices)
    ends = {
        "exclusiveMinimum": numbers.above,
        "minimum": numbers.least,
        "maximum": numbers.most,
        "exclusiveMaximum": numbers.below,
    }
    return schema | {name: end for name, end in ends.items() if end is not None}


def _estimates(model: Schema) -> Schema:
    """A choice of estimators, each with its options; one that names none is of the default."""
    default = EstimateModel.model_fields["estimator"].default
    services = _never_null(model["properties"]["services"]) | {"minItems": 1, "uniqueItems": True}
    alternatives = []
    for name, estimator in registered_estimators().items():
        schema = _mapping(
            name,
            {
                "estimator": {"const": name, "description": estimator.summary},
                "services": services,
                **{
                    option.name: _option(option) | {"description": option.allowed}
                    for option in estimator.options.values()
                },
            },
        )
        schema["description"] = estimator.summary
        if name != default:
            schema["required"] = ["estimator"]
        alternatives.append(schema)
    return _one_of(alternatives) | {"description": model["description"].partition(".")[0]}
