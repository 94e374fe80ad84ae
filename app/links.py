"""Every URL of the product as a named function; nothing else writes a path.

Ids that stand in a path need no escaping (core.ids); everything else is quoted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode


def _query(path: str, query: Mapping[str, object | None]) -> str:
    given = {key: str(value) for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def home() -> str:
    """The first page."""
    return "/"


def trajectories(**query: object) -> str:
    """The table of trajectories; the query is its state (q, sort, dir, after, limit)."""
    return _query("/trajectories", query)


def export_trajectories(**query: object) -> str:
    """A list as a file: `form` (csv, jsonl, logs), and its q, sort, dir or ids."""
    return _query("/trajectories/export", query)


def compare_trajectories(a: str = "", b: str = "") -> str:
    """Two trajectories side by side; without ids, where a form sends them as `id`."""
    return "/trajectories/compare" + (f"?id={quote(a)}&id={quote(b)}" if a and b else "")


def picked(back: Mapping[str, str], pick: str, ids: Sequence[str]) -> str:
    """A list with rows selected already, because `pick` (compare, export) takes another number."""
    return _query("/trajectories", {**back, "pick": pick}) + "".join(
        f"&id={quote(one)}" for one in ids
    )


def save_view() -> str:
    """Keep a list under a name."""
    return "/trajectories/views"


def drop_view() -> str:
    """Offer a saved list no longer."""
    return "/trajectories/views/drop"


def find(**query: object) -> str:
    """Full-text search over all trajectories, or a jump (text)."""
    return _query("/find", query)


def trajectory(trajectory_id: str) -> str:
    """A trajectory at its head."""
    return f"/t/{quote(trajectory_id)}"


def boundary(trajectory_id: str, sequence_number: int, **query: object) -> str:
    """A trajectory at one boundary; the query is its state (tab, compare, view, ...)."""
    return _query(f"/t/{quote(trajectory_id)}/@{sequence_number}", query)


def jump(trajectory_id: str, **query: object) -> str:
    """A typed or keyed jump (at, from, next, prev): it answers with the boundary it means."""
    return _query(f"/t/{quote(trajectory_id)}/go", query)


def live(trajectory_id: str, after: int) -> str:
    """The stream that says when a trajectory's head has moved beyond `after`."""
    return _query(f"/t/{quote(trajectory_id)}/live", {"after": after})


def ahead(trajectory_id: str, sequence_number: int, **query: object) -> str:
    """What has come after a boundary since its page was read."""
    return _query(f"/t/{quote(trajectory_id)}/@{sequence_number}/ahead", query)


def live_list(after: int) -> str:
    """The stream that says when some trajectory has changed since `after` (microseconds)."""
    return _query("/trajectories/live", {"after": after})


def newer(since: int) -> str:
    """How many trajectories changed since then, as the line above a list."""
    return _query("/trajectories/newer", {"since": since})


def tree(trajectory_id: str) -> str:
    """A trajectory with its parent and sub-agents."""
    return f"/t/{quote(trajectory_id)}/tree"


def notes(trajectory_id: str, **query: object) -> str:
    """Notes and tags of a trajectory; a form posts here."""
    return _query(f"/t/{quote(trajectory_id)}/notes", query)


def withdraw(trajectory_id: str) -> str:
    """Withdraw a trajectory, or bring it back; a form posts here."""
    return f"/t/{quote(trajectory_id)}/withdraw"


def verify(trajectory_id: str, sequence_number: int, **query: object) -> str:
    """The page of a boundary after its digests and chain were derived again."""
    return _query(f"/t/{quote(trajectory_id)}/@{sequence_number}/verify", query)


def still(trajectory_id: str, sequence_number: int) -> str:
    """One boundary as one HTML file, as a download."""
    return f"/t/{quote(trajectory_id)}/@{sequence_number}/page.html"


def imports() -> str:
    """The import page."""
    return "/import"


def imports_after(after: str) -> str:
    """The import page with the sources beyond this one."""
    return _query("/import", {"after": after}) + "#sources"


def imports_rederived(done: int, refused: int) -> str:
    """The import page after sources were derived again."""
    return _query("/import", {"derived": done, "refused": refused}) + "#sources"


def import_source(trajectory_id: str) -> str:
    """The source a trajectory came from: what it became, withdraw it, bring it back."""
    return f"/import/source/{quote(trajectory_id)}"


def import_rederive() -> str:
    """Derive again what older importers read."""
    return "/import/rederive"


def import_job_page(job: str) -> str:
    """The page of one import: progress, then its report."""
    return f"/import/{quote(job)}"


def health() -> str:
    """What the store declared, verified and does."""
    return "/health"


def health_chart(name: str) -> str:
    """The figure of one chart of the health page, as JSON."""
    return f"/health/charts/{quote(name)}"


def error_doc(code: str) -> str:
    """The page that says what an error code means and what to do; the `type` of a problem."""
    return f"/docs/errors/{quote(code)}"


def error_docs() -> str:
    """The list of error codes."""
    return "/docs/errors"


def static(name: str) -> str:
    """A file of ours, cached by browsers under its content hash (app.main.asset_version)."""
    return f"/static/{quote(name)}"


def api_trajectories() -> str:
    """Create and list."""
    return "/v1/trajectories"


def api_trajectory(trajectory_id: str) -> str:
    """Head and summary of one."""
    return f"/v1/trajectories/{quote(trajectory_id)}"


def api_search(**query: object) -> str:
    """Full-text search (text, trajectory_id, after, limit)."""
    return _query("/v1/search", query)


def api_claim(trajectory_id: str) -> str:
    """Ask for the next owner epoch."""
    return f"{api_trajectory(trajectory_id)}/claim"


def api_events(trajectory_id: str, **query: object) -> str:
    """Append to and read the log (after, upto, limit)."""
    return _query(f"{api_trajectory(trajectory_id)}/events", query)


def api_event(trajectory_id: str, sequence_number: int) -> str:
    """One event with its payload."""
    return f"{api_trajectory(trajectory_id)}/events/{sequence_number}"


def api_payload(trajectory_id: str, sequence_number: int) -> str:
    """The payload's exact bytes, as a download."""
    return f"{api_event(trajectory_id, sequence_number)}/payload"


def api_record(trajectory_id: str, sequence_number: int | str) -> str:
    """The record at a boundary (`head` for the newest)."""
    return f"{api_trajectory(trajectory_id)}/record/{sequence_number}"


def api_records(trajectory_id: str, first: int, last: int | None) -> str:
    """The record of every boundary of a range."""
    return _query(f"{api_trajectory(trajectory_id)}/records", {"first": first, "last": last})


def api_difference(trajectory_id: str, a: int, b: int) -> str:
    """What differs between two boundaries."""
    return _query(f"{api_trajectory(trajectory_id)}/difference", {"a": a, "b": b})


def api_verify(trajectory_id: str) -> str:
    """Re-derive digests and chain, streamed."""
    return f"{api_trajectory(trajectory_id)}/verify"


def api_verify_all() -> str:
    """Re-derive digests and chain of every trajectory, streamed."""
    return "/v1/verify"


def api_ledger(trajectory_id: str | None = None, **query: object) -> str:
    """Refused writes and incidents."""
    if trajectory_id is None:
        return _query("/v1/ledger", query)
    return _query(f"{api_trajectory(trajectory_id)}/ledger", query)


def api_export(trajectory_id: str) -> str:
    """The native log export (JSONL), as a download."""
    return f"{api_trajectory(trajectory_id)}/export"


def api_blobs() -> str:
    """Put a blob whose digest the service computes."""
    return "/v1/blobs"


def api_blob(digest: str) -> str:
    """One blob by its digest, as a download."""
    return f"/v1/blobs/{quote(digest, safe=':')}"


def api_imports() -> str:
    """Import files."""
    return "/v1/imports"


def api_import_sources(**query: object) -> str:
    """What was imported (after, limit)."""
    return _query("/v1/imports/sources", query)


def api_import_rederive(**query: object) -> str:
    """Derive again what older importers read (after, limit)."""
    return _query("/v1/imports/rederive", query)


def api_import_job(job: str) -> str:
    """Progress and report of one import."""
    return f"/v1/imports/{quote(job)}"


def api_acts(trajectory_id: str | None = None, **query: object) -> str:
    """Acts about a trajectory, or all of them."""
    if trajectory_id is None:
        return _query("/v1/acts", query)
    return _query(f"{api_trajectory(trajectory_id)}/acts", query)


def api_tree(trajectory_id: str) -> str:
    """Parent and sub-agents of a trajectory."""
    return f"{api_trajectory(trajectory_id)}/tree"


def api_prices() -> str:
    """The price table."""
    return "/v1/prices"


def prices(**query: object) -> str:
    """The price table that derived costs come from, to look at and to change."""
    return _query("/settings/prices", query)


def prices_retract() -> str:
    """Take back a price that was stated."""
    return "/settings/prices/retract"


def api_audit() -> str:
    """Check every stored invariant, streamed."""
    return "/v1/audit"


def api_facts() -> str:
    """What the store declared and what was verified."""
    return "/v1/facts"


def glossary(word: str = "") -> str:
    """What the words mean, or one of them."""
    return "/docs/glossary" + (f"#{quote(word.lower().replace(' ', '-'))}" if word else "")


def openapi() -> str:
    """The description of the API."""
    return "/openapi.json"


def livez() -> str:
    """Whether the process answers."""
    return "/livez"


def readyz() -> str:
    """Whether it takes writes, and why not."""
    return "/readyz"


def metrics() -> str:
    """Counters for Prometheus."""
    return "/metrics"
