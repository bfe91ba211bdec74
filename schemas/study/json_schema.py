"""The JSON Schema of study files, with which an editor completes, explains and underlines.

The models give what every study has. The mechanisms, the estimators and their options come from the
registries, so that those of other packages are in it too. It says less than ``ldpbeam explain`` checks: what
depends on several values at once (low < high, a mechanism for the domain, a service's name under
``estimates``) is not in it.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Iterable, Mapping
from typing import Any

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

#: The keys of which a domain has one, and what others it then needs.
_DOMAINS = ("numeric", "edges", "categories", "candidates", "keys", "coordinates")
_BESIDE = {"candidates": ["places"], "places": ["candidates"], "keys": ["values"], "coordinates": ["values"]}
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
    attribute = parts["AttributeModel"]["properties"]
    schema["properties"]["study"]["pattern"] = NAME
    for named in (schema["properties"]["attributes"], attribute["services"], attribute["estimates"]):
        named["propertyNames"] = {"pattern": NAME}
    parts["GroupsModel"]["properties"]["field"]["not"] = {"enum": sorted(OWN_COLUMNS)}
    for arm in parts["DomainModel"]["properties"]["coordinates"]["anyOf"]:
        if arm["type"] == "array":
            arm["items"]["pattern"] = NAME
    parts["DomainModel"] |= _one_of({"required": [key]} for key in _DOMAINS) | {"dependentRequired": _BESIDE}
    parts["EstimateModel"] = _estimates(parts["EstimateModel"])
    parts["VersionModel"], parts["ServiceModel"] = _services(parts["VersionModel"], parts["ServiceModel"])
    return schema


def _one_of(schemas: Iterable[Schema]) -> Schema:
    return {"oneOf": list(schemas)}


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


def _services(version: Schema, service: Schema) -> tuple[Schema, Schema]:
    """The versions and the services of attributes: a choice of mechanisms with their options."""
    mechanisms = registered_mechanisms()
    options: dict[str, tuple[str, Mapping[str, Option]]] = {
        AUTO: ("GRR or OLH, whichever has the lower variance", _of_auto(mechanisms)),
        **{name: (mechanism.summary, options_of(mechanism)) for name, mechanism in mechanisms.items()},
    }
    of_version, of_service = (
        {name: _never_null(given) for name, given in model["properties"].items()}
        for model in (version, service)
    )
    of_service["version_field"]["not"] = {"enum": sorted(OWN_COLUMNS)}
    for model in (of_version, of_service):
        model["lifetime_epsilon"] |= {"exclusiveMinimum": SMALLEST_EPSILON, "maximum": LARGEST_EPSILON}
        model["memo_buckets"] |= {"minimum": 2, "maximum": MOST_MEMO_BUCKETS}
    stated = {RandomisedResponse: ("rate", "replacement"), OptimisedUnaryEncoding: ("other",)}

    def choice(name: str, model: Schema, shared: Iterable[str]) -> Schema:
        mechanism = mechanisms.get(name, Mechanism)
        keys = [*shared, *(REMEMBERING if mechanism in MEMOISED else ()), *stated.get(mechanism, ())]
        return _choice(name, *options[name], {key: model[key] for key in keys if key in model})

    # A version that names no mechanism has the service's, whichever that is.
    either = {option: True for _, given in options.values() for option in given}
    inherited = {name: given for name, given in of_version.items() if name != "mechanism"}
    versions = [_mapping("as the service", inherited | {"epsilon": _EPSILON} | either)]
    versions += [choice(name, of_version, ("values", "since", "until")) for name in options]
    services = []
    for name, (_, given) in options.items():
        chosen = choice(name, of_service, ("version_field", "payload", "versions"))
        # Versions may give epsilon, and then the service need not.
        chosen["anyOf"] = [{"required": [key]} for key in ("epsilon", "rate", "other", "versions")]
        for key in {"epsilon", "rate", *given} & set(chosen["properties"]):
            chosen["properties"][key] = _or_by_field(chosen["properties"][key])
        services.append(chosen)
    shared = {name: of_service[name] for name in ("version_field", "payload", "versions", *REMEMBERING)}
    only_versions = _mapping("the versions name their mechanisms", {"epsilon": _EPSILON} | shared | either)
    services.append(only_versions | {"required": ["versions"]})
    described = service["description"].partition("\n")[0]
    return _one_of(versions), _one_of(services) | {"description": described}


def _or_by_field(schema: Schema) -> Schema:
    """A schema of a key whose value may be said by a field of the report, if it is a number."""
    arms = schema.get("anyOf", [schema])
    if not any(arm.get("type") in ("integer", "number") for arm in arms):
        return schema
    shared = {name: schema[name] for name in ("description", "default") if name in schema}
    return shared | {"anyOf": [*arms, {"$ref": "#/$defs/ByFieldModel"}]}


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
