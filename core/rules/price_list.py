"""Prices that come with the program: list prices in USD for a million tokens of each kind.

They are data of somebody else, taken from the vendors' pages in the month of `CHECKED`, for
standard service: no batch or priority rate, no rate of another cloud, none that depends on a
prompt's length, and a cache write at its five-minute rate. Check before relying on one; a price
that a person states for the same model and day stands instead of it.
"""

from __future__ import annotations

CHECKED = "2026-11"
ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing"
OPENAI = "https://developers.openai.com/api/docs/pricing"

#: (model, first day, input, output, cache read, cache write) with prices as decimal text. A name
#: and its dated forms are two rows, so that no price reaches a model that only begins alike.
ROWS: dict[str, tuple[tuple[str, str, str, str, str, str], ...]] = {
    ANTHROPIC: (
        ("claude-3-haiku", "2024-03-07", "0.25", "1.25", "0.03", "0.30"),
        ("claude-3-haiku-20*", "2024-03-07", "0.25", "1.25", "0.03", "0.30"),
        ("claude-3-opus-20*", "2024-02-29", "15", "75", "1.50", "18.75"),
        ("claude-3-5-haiku-20*", "2024-10-22", "0.80", "4", "0.08", "1"),
        ("claude-3-5-sonnet-20*", "2024-06-20", "3", "15", "0.30", "3.75"),
        ("claude-3-7-sonnet-20*", "2025-02-19", "3", "15", "0.30", "3.75"),
        ("claude-sonnet-4", "2025-05-14", "3", "15", "0.30", "3.75"),
        ("claude-sonnet-4-20*", "2025-05-14", "3", "15", "0.30", "3.75"),
        ("claude-sonnet-4-5", "2025-09-29", "3", "15", "0.30", "3.75"),
        ("claude-sonnet-4-5-20*", "2025-09-29", "3", "15", "0.30", "3.75"),
        ("claude-sonnet-4-6", "2026-02-01", "3", "15", "0.30", "3.75"),
        ("claude-haiku-4-5", "2025-10-01", "1", "5", "0.10", "1.25"),
        ("claude-haiku-4-5-20*", "2025-10-01", "1", "5", "0.10", "1.25"),
        ("claude-opus-4", "2025-05-14", "15", "75", "1.50", "18.75"),
        ("claude-opus-4-20*", "2025-05-14", "15", "75", "1.50", "18.75"),
        ("claude-opus-4-1", "2025-08-05", "15", "75", "1.50", "18.75"),
        ("claude-opus-4-1-20*", "2025-08-05", "15", "75", "1.50", "18.75"),
        ("claude-opus-4-5", "2025-11-01", "5", "25", "0.50", "6.25"),
        ("claude-opus-4-5-20*", "2025-11-01", "5", "25", "0.50", "6.25"),
        ("claude-opus-4-6", "2026-01-01", "5", "25", "0.50", "6.25"),
        ("claude-opus-4-7", "2026-03-01", "5", "25", "0.50", "6.25"),
        ("claude-opus-4-8", "2026-03-01", "5", "25", "0.50", "6.25"),
        ("claude-opus-5", "2026-07-24", "5", "25", "0.50", "6.25"),
    ),
    OPENAI: (
        ("gpt-4o", "2024-10-02", "2.50", "10", "1.25", "2.50"),
        ("gpt-4o-2024-08-06", "2024-08-06", "2.50", "10", "1.25", "2.50"),
        ("gpt-4o-2024-11-20", "2024-11-20", "2.50", "10", "1.25", "2.50"),
        ("gpt-4o-mini", "2024-07-18", "0.15", "0.60", "0.075", "0.15"),
        ("gpt-4o-mini-2024-07-18", "2024-07-18", "0.15", "0.60", "0.075", "0.15"),
        ("gpt-4.1", "2025-04-14", "2", "8", "0.50", "2"),
        ("gpt-4.1-20*", "2025-04-14", "2", "8", "0.50", "2"),
        ("gpt-4.1-mini", "2025-04-14", "0.40", "1.60", "0.10", "0.40"),
        ("gpt-4.1-mini-20*", "2025-04-14", "0.40", "1.60", "0.10", "0.40"),
        ("o3", "2025-06-10", "2", "8", "0.50", "2"),
        ("o3-20*", "2025-06-10", "2", "8", "0.50", "2"),
        ("o4-mini", "2025-04-16", "1.10", "4.40", "0.275", "1.10"),
        ("o4-mini-20*", "2025-04-16", "1.10", "4.40", "0.275", "1.10"),
        ("gpt-5", "2025-08-07", "1.25", "10", "0.125", "1.25"),
        ("gpt-5-20*", "2025-08-07", "1.25", "10", "0.125", "1.25"),
        ("gpt-5-codex", "2025-09-15", "1.25", "10", "0.125", "1.25"),
        ("gpt-5-mini", "2025-08-07", "0.25", "2", "0.025", "0.25"),
        ("gpt-5-mini-20*", "2025-08-07", "0.25", "2", "0.025", "0.25"),
        ("gpt-5.1", "2025-11-13", "1.25", "10", "0.125", "1.25"),
        ("gpt-5.1-codex", "2025-11-13", "1.25", "10", "0.125", "1.25"),
        ("gpt-5.2", "2025-12-11", "1.75", "14", "0.175", "1.75"),
        ("gpt-5.2-codex", "2025-12-11", "1.75", "14", "0.175", "1.75"),
        ("gpt-5.3-codex", "2026-02-01", "1.75", "14", "0.175", "1.75"),
    ),
}
