"""Whether an attribute's joint histogram has what a question asks for."""

from __future__ import annotations

from ldpbeam.estimators.question import Question


def is_joined(question: Question) -> bool:
    """Whether two or more services are asked for, and the joint histogram has all of them."""
    joined = question.attribute.joint_services
    return len(question.services) > 1 and all(service in joined for service in question.services)
