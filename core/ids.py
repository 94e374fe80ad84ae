"""Identifiers: one type and one parser for each, so that a wrong id fails at the edge.

An id is printable ASCII without spaces. Those that appear as a path segment of a URL
(trajectory, tenant) are narrower, so that no id needs escaping to be linked.
"""

from __future__ import annotations

import re
from typing import NewType

from core.errors import InvalidInput

TrajectoryId = NewType("TrajectoryId", str)
Tenant = NewType("Tenant", str)
EventId = NewType("EventId", str)
OperationId = NewType("OperationId", str)
AttemptId = NewType("AttemptId", str)
InvocationId = NewType("InvocationId", str)
RequestId = NewType("RequestId", str)
WorkerId = NewType("WorkerId", str)

#: Patterns are exported because the HTTP schemas state them too.
TRAJECTORY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$"
TENANT_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}$"
ID_PATTERN = r"^[!-~]{1,128}$"

_TRAJECTORY = re.compile(TRAJECTORY_PATTERN[1:-1])
_TENANT = re.compile(TENANT_PATTERN[1:-1])
_ID = re.compile(ID_PATTERN[1:-1])


def trajectory_id(text: str) -> TrajectoryId:
    """Parse a trajectory id; InvalidInput if it could not stand in a URL unescaped."""
    if not _TRAJECTORY.fullmatch(text):
        raise InvalidInput(
            "a trajectory id is 1 to 96 letters, digits, '.', '_' or '-', "
            "and starts with a letter or digit",
            field="trajectory_id",
        )
    return TrajectoryId(text)


def tenant(text: str) -> Tenant:
    """Parse a tenant name; InvalidInput if it is not lower-case letters, digits and '-'."""
    if not _TENANT.fullmatch(text):
        raise InvalidInput("a tenant is 1 to 63 lower-case letters, digits or '-'", field="tenant")
    return Tenant(text)


def check_id(text: str, field: str) -> str:
    """Check any other id: 1 to 128 printable ASCII characters without spaces."""
    if not _ID.fullmatch(text):
        raise InvalidInput(
            "an id is 1 to 128 printable ASCII characters without spaces", field=field
        )
    return text
