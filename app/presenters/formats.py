"""The formats this version reads, as a person looks for their own files: where, and what like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """One tool's sessions."""

    importer: str
    """Name of the importer; a test compares them with the registry."""
    title: str
    where: tuple[str, ...]
    """Paths and globs, as one would type them."""
    looks: str
    cannot: str


FORMATS: tuple[Format, ...] = (
    Format(
        "mini-swe-agent",
        "mini-swe-agent 1.x and 2.x",
        (
            "~/.config/mini-swe-agent/last_mini_run.traj.json",
            "OUTPUT/<instance>/<instance>.traj.json",
        ),
        "one JSON document with info, messages and trajectory_format, rewritten after every step; "
        "the file you gave to --output (-o) is one; so is the bare list of messages before 1.0",
        "whether a call without a result was sent; 1.x also has no times",
    ),
    Format(
        "swe-agent",
        "SWE-agent .traj, 0.x and 1.x",
        ("trajectories/<user>/<run>/<instance>/<instance>.traj",),
        "one JSON document with trajectory, history and info",
        "any time; tokens of a reply (only of the run); whether a call was sent; before 1.1 the "
        "input of a model call",
    ),
    Format(
        "claude-code",
        "Claude Code sessions",
        (
            "~/.claude/projects/<project>/<session>.jsonl",
            "~/.claude/projects/<project>/<session>/subagents/agent-<id>.jsonl",
        ),
        "lines of JSON with type, uuid, parentUuid and sessionId; the file grows while it runs",
        "the system prompt and the tools; permissions that were granted; what commands changed; "
        "how it ended",
    ),
    Format(
        "claude-code-export",
        "Claude Code web exports",
        ("<session>.json",),
        "one JSON document with the lines of a session under loglines",
        "what sessions cannot say",
    ),
    Format(
        "codex",
        "Codex rollouts",
        ("~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl",),
        "lines of JSON with timestamp, type and payload, the first a session_meta; the file grows "
        "while it runs. Also what `codex exec --json` prints",
        "approvals that were asked for; the text of reasoning; the request as it was sent; how it "
        "ended",
    ),
    Format(
        "strandline",
        "Strandline log export",
        ("<trajectory>.jsonl",),
        'lines of JSON, the first begins with {"strandline":"bundle/1"; it installs with the same '
        "chain, read-only",
        "what its own source could not say",
    ),
)
