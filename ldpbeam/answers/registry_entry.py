"""What registries of deployments ask of a study: the fields of NIST SP 800-226 and of OpenDP's registry.

What a study does not know, such as who collects and why, is an empty text, for the person who files the entry
to fill in.
"""

from __future__ import annotations

from typing import Any

from ldpbeam.spent import costs_of, services_of
from ldpbeam.study import Study, attribute_of
from ldpbeam.times import format_duration


def registry_entry(study: Study) -> dict[str, Any]:
    """The entry of a study, as nested dicts with the keys of OpenDP's registry."""
    windows, users = study.windows, study.without_users != tuple(study.attributes)
    many = study.most_reports if study.repeats == "all" else 1
    costs = costs_of(study)
    loss: dict[str, Any] = {"epsilon_of_a_report": max(costs.epsilon.tolist())}
    if users:
        loss["epsilon_of_a_user" + "_in_a_window" * (windows is not None)] = _spent(study, many)
    if study.ledger is not None and windows is not None:
        in_period = study.ledger.periods.most_in(windows.period)
        many *= -(-in_period // study.panel.windows) if study.panel else in_period
        loss[f"epsilon_of_a_user_in_{format_duration(study.ledger.period)}"] = _spent(study, many)
    parameters = {"epsilon": list(loss.values())[-1]}
    if costs.delta.any():
        parameters["delta"] = many * float(costs.delta.sum()) if users else max(costs.delta.tolist())
    attributes = [study.attribute(name) for name in study.attributes]
    domains = [f"{each.name}: {each.domain.explain(each.value_buckets)}" for each in attributes]
    seen = ["attribute", "service", *["event time"] * study.needs_time, *["user id"] * users]
    seen += [study.groups.field] if study.groups else []
    described = study.attributes.values()
    estimators = {wanted.estimator for each in described for wanted in each.estimates.values()}
    asked = ("data_curators", "description", "intended_use", "data_product_region", "data_product_sector")
    product = {"data_product_type": "Summary statistics"}
    return {
        "url_slug": study.name,
        "deployment": {
            "basic": {"name": study.name, **dict.fromkeys(asked, ""), **product},
            "dp_variant": {
                "variant_name": "Approximate DP" if costs.delta.any() else "Pure DP",
                "data_domain": "; ".join(domains),
                "unprotected_quantities": f"{', '.join(seen)}; who reports, and how often",
            },
            "privacy_loss": {
                "privacy_unit": "one user" if users else "one report",
                "privacy_parameters": parameters,
                "privacy_parameters_details": loss,
            },
            "deployment_model": {
                "model_name": "Local",
                "trust_assumptions": "each device perturbs its value; nobody else is trusted with it",
                "actors": "devices see values; services see perturbed reports; readers see estimates",
                "release_type": "Many releases" if windows else "One release",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "mechanisms": [f"{v.label}: {v.explain()}" for each in attributes for v in each.versions],
                "composition": "epsilons of a user's reports are added up",
                "post_processing": f"estimators: {', '.join(sorted(estimators))}",
            },
            "administrative": {"status": "Draft", "registry_authors": [""]},
        },
    }


def _spent(study: Study, reports: int) -> float:
    """What so many reports of a user to each service reveal of their values, at most."""
    costs, of_service = costs_of(study), dict[tuple[str, str], float]()
    for channel, (name, index) in enumerate(services_of(study)):
        key = attribute_of(name), study.attribute(name).versions[index].service
        spent = min(reports * costs.epsilon[channel], costs.most[channel])
        of_service[key] = max(of_service.get(key, 0.0), float(spent))
    return sum(of_service.values())
