"""The tabs of a boundary's page. TABS is all of them, in the order shown.

INVARIANTS
1. A tab is read only when it is shown, and reads nothing of another.
2. What a tab shows as known comes from the record at the boundary and the events up to it; what
   it names of later is marked so.
"""

from __future__ import annotations

from collections.abc import Callable

from app.pages.place import Tab
from app.pages.tabs import budget, context, conversation, event, evidence, operations, state
from app.pages.tabs.budget import BudgetPanel
from app.pages.tabs.context import ContextPanel
from app.pages.tabs.conversation import ConversationPanel
from app.pages.tabs.event import EventPanel
from app.pages.tabs.evidence import EvidencePanel
from app.pages.tabs.operations import OperationsPanel
from app.pages.tabs.reads import Reads
from app.pages.tabs.state import StatePanel

Panel = (
    EventPanel
    | ConversationPanel
    | StatePanel
    | ContextPanel
    | OperationsPanel
    | BudgetPanel
    | EvidencePanel
    | None
)

TABS: dict[Tab, Callable[[Reads], Panel]] = {
    "event": event.load,
    "conversation": conversation.load,
    "state": state.load,
    "context": context.load,
    "operations": operations.load,
    "budget": budget.load,
    "evidence": evidence.load,
}
