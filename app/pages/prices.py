"""The price table that derived costs come from: shipped prices, and those that people state."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from app import links, render
from app.deps import ReaderDep, RuntimeDep, WriterDep
from app.presenters import prices as rows
from app.presenters.prices import Done, Row
from app.render import Page
from core.acts import Price, Retract
from core.errors import InvalidInput
from core.limits import INTEGER_MAX, PAGE_ROWS_MAX
from core.principal import Principal
from core.rules import price_list
from core.rules.prices import KINDS, PriceRow, check_day, nano_usd, usd
from runtime.pricing import derived
from runtime.service import Runtime

router = APIRouter(include_in_schema=False)

FIELD_CHARS_MAX = 200
UNPRICED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Typed:
    """The form as it is filled in."""

    model: str = ""
    since: str = ""
    input: str = ""
    output: str = ""
    cache_read: str = ""
    cache_write: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class PricesPage(Page):
    """The table, the form, and what was done."""

    template: ClassVar[str] = "pages/prices.html"
    parts: ClassVar[Mapping[str, str]] = {}
    section: ClassVar[str] = "Settings"

    now: int
    rows: tuple[Row, ...]
    shipped: int
    checked: str
    typed: Typed
    history: tuple[Done, ...]
    more: int
    """Acts before those shown."""
    unpriced: tuple[tuple[str, int, str], ...]
    """(model, trajectories, the form for it)."""
    looked_at: int
    last: int
    request_id: str


@router.get("/settings/prices", response_class=HTMLResponse)
def prices(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    model: Annotated[str, Query(max_length=100)] = "",
    since: Annotated[str, Query(max_length=10)] = "",
) -> Response:
    """The table; `model` and `since` fill the form in."""
    table = runtime.price_table(who)
    stated = runtime.prices(who)
    acts = runtime.price_acts(who)
    shown = rows.rows(table, stated)
    unpriced, looked_at = _unpriced(runtime, who)
    page = PricesPage(
        title="Prices",
        now=runtime.clock(),
        rows=shown,
        shipped=sum(row.act == 0 for row in shown),
        checked=price_list.CHECKED,
        typed=_typed(table.rows, model, since),
        history=rows.history(acts),
        more=max(0, len(acts) - rows.HISTORY_SHOWN),
        unpriced=unpriced,
        looked_at=looked_at,
        last=acts[-1].number if acts else 0,
        request_id=_request_id(),
    )
    return render.respond(request, page)


def _typed(table: tuple[PriceRow, ...], model: str, since: str) -> Typed:
    found = next((row for row in table if (row.model, row.since) == (model, since)), None)
    if found is None:
        return Typed(model=model, since=since)
    fresh, output, read, write = (usd(getattr(found, kind)) for kind in KINDS)
    return Typed(model, since, fresh, output, read, write, found.source)


def _unpriced(runtime: Runtime, who: Principal) -> tuple[tuple[tuple[str, int, str], ...], int]:
    """Models without a price in the newest trajectories that have tokens and no cost, most used
    first; and how many trajectories were looked at."""
    found = runtime.list(
        who,
        limit=PAGE_ROWS_MAX,
        filters={
            "cost_nano_usd": None,
            "cost_derived_nano_usd": None,
            "tokens_by_model__ne": None,
        },
    ).rows
    table = runtime.price_table(who)
    counted: dict[str, int] = {}
    for summary in found:
        for name in derived(summary, table).unpriced:
            if name is not None:
                counted[name] = counted.get(name, 0) + 1
    most = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:UNPRICED_SHOWN]
    return (
        tuple((name, count, links.prices(model=name) + "#state") for name, count in most),
        len(found),
    )


def _request_id() -> str:
    return f"page.{secrets.token_hex(12)}"


@router.post("/settings/prices")
async def state(request: Request, who: WriterDep, runtime: RuntimeDep) -> Response:
    """State a price; it replaces one for the same model and day."""
    sent = await _form(request)
    body = Price(
        model=sent["model"],
        since=check_day(sent["since"]),
        input=nano_usd(sent["input"]),
        output=nano_usd(sent["output"]),
        cache_read=nano_usd(sent["cache_read"] or sent["input"]),
        cache_write=nano_usd(sent["cache_write"] or sent["input"]),
        source=sent["source"],
    )
    made = await run_in_threadpool(
        runtime.act,
        who,
        "price",
        body,
        request_id=sent["request_id"],
        expected_last=_number(sent, "last"),
    )
    return RedirectResponse(f"{links.prices()}#act-{made.number}", 303)


@router.post("/settings/prices/retract")
async def retract(request: Request, who: WriterDep, runtime: RuntimeDep) -> Response:
    """Take a stated price back."""
    sent = await _form(request)
    made = await run_in_threadpool(
        runtime.act,
        who,
        "retract",
        Retract(_number(sent, "number")),
        request_id=sent["request_id"],
        expected_last=_number(sent, "last"),
    )
    return RedirectResponse(f"{links.prices()}#act-{made.number}", 303)


class _Sent(dict[str, str]):
    """Fields as they were sent; one that was not is empty."""

    def __missing__(self, key: str) -> str:
        return ""


async def _form(request: Request) -> _Sent:
    async with request.form(max_files=0, max_fields=12) as form:
        sent = _Sent({name: value for name, value in form.items() if isinstance(value, str)})
    for name, value in sent.items():
        if len(value) > FIELD_CHARS_MAX:
            raise InvalidInput(f"{name} is at most {FIELD_CHARS_MAX} characters", field="form")
        sent[name] = value.strip()
    return sent


def _number(sent: _Sent, name: str) -> int:
    text = sent[name]
    if not (text.isascii() and text.isdigit() and int(text[:17]) <= INTEGER_MAX):
        raise InvalidInput("the form is not one of this page; open it again", field=name)
    return int(text)
