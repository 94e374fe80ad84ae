"""The price table that derived costs come from: shipped prices, and those that people state."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from app import links, render
from app.deps import ReaderDep, RuntimeDep, WriterDep
from app.presenters import prices as rows
from app.presenters.prices import Done, Row
from app.render import Page
from core.acts import Price, Retract, decode
from core.errors import HeadMoved, InvalidInput
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
    unpriced: tuple[tuple[str, int, str, str], ...]
    """(model, trajectories, the form for it, the first day that a price of it holds; empty: there
    is none)."""
    looked_at: int
    last: int
    request_id: str
    wrong: str = ""
    """Field of the form that was refused; empty: none, or all of it."""
    error: str = ""
    """Why the form was refused; empty: it was not."""


@router.get("/settings/prices", response_class=HTMLResponse)
def prices(
    request: Request,
    who: ReaderDep,
    runtime: RuntimeDep,
    model: Annotated[str, Query(max_length=100)] = "",
    since: Annotated[str, Query(max_length=10)] = "",
) -> Response:
    """The table; `model` and `since` fill the form in."""
    typed = _typed(runtime.price_table(who).rows, model, since)
    return render.respond(request, _page(runtime, who, typed))


def _page(
    runtime: Runtime, who: Principal, typed: Typed, wrong: str = "", error: str = ""
) -> PricesPage:
    table = runtime.price_table(who)
    acts = runtime.price_acts(who)
    shown = rows.rows(table, runtime.prices(who))
    unpriced, looked_at = _unpriced(runtime, who)
    return PricesPage(
        title="Prices",
        now=runtime.clock(),
        rows=shown,
        shipped=sum(row.act == 0 for row in shown),
        checked=price_list.CHECKED,
        typed=typed,
        history=rows.history(acts),
        more=max(0, len(acts) - rows.HISTORY_SHOWN),
        unpriced=unpriced,
        looked_at=looked_at,
        last=acts[-1].number if acts else 0,
        request_id=_request_id(),
        wrong=wrong,
        error=error,
    )


def _typed(table: tuple[PriceRow, ...], model: str, since: str) -> Typed:
    found = next((row for row in table if (row.model, row.since) == (model, since)), None)
    if found is None:
        return Typed(model=model, since=since)
    fresh, output, read, write = (usd(getattr(found, kind)) for kind in KINDS)
    return Typed(model, since, fresh, output, read, write, found.source)


def _unpriced(
    runtime: Runtime, who: Principal
) -> tuple[tuple[tuple[str, int, str, str], ...], int]:
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
    begins: dict[str, str] = {}
    for summary in found:
        for one in derived(summary, table).models:
            if one.model is not None and one.price is None:
                counted[one.model] = counted.get(one.model, 0) + 1
                begins[one.model] = one.begins or ""
    most = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:UNPRICED_SHOWN]
    return (
        tuple(
            (name, count, links.prices(model=name) + "#state", begins[name]) for name, count in most
        ),
        len(found),
    )


def _request_id() -> str:
    return f"page.{secrets.token_hex(12)}"


@router.post("/settings/prices")
async def state(request: Request, who: WriterDep, runtime: RuntimeDep) -> Response:
    """State a price; it replaces one for the same model and day. What cannot be taken is shown in
    the form again, with why."""
    sent = await _form(request)
    last = _number(sent, "last")
    try:
        body = _price(sent)
        made = await run_in_threadpool(
            runtime.act, who, "price", body, request_id=sent["request_id"], expected_last=last
        )
    except (InvalidInput, HeadMoved) as error:
        field = str(error.data.get("field") or "") if isinstance(error, InvalidInput) else ""
        typed = Typed(*(sent[name] for name in _FIELDS))
        wrong = field if field in _FIELDS else ""
        page = await run_in_threadpool(_page, runtime, who, typed, wrong, render.reason(error))
        return render.respond(request, page, status=409 if isinstance(error, HeadMoved) else 422)
    return RedirectResponse(f"{links.prices()}#act-{made.number}", 303)


_FIELDS = tuple(field.name for field in fields(Typed))


def _price(sent: _Sent) -> Price:
    """The price that was typed; InvalidInput names the field."""
    amounts = {}
    for kind in KINDS:
        typed = sent[kind] or (sent["input"] if kind.startswith("cache") else "")
        try:
            amounts[kind] = nano_usd(typed)
        except InvalidInput as error:
            field = kind if sent[kind] or not kind.startswith("cache") else "input"
            raise InvalidInput(str(error), field=field) from error
    stated = {"model": sent["model"], "since": check_day(sent["since"]), "source": sent["source"]}
    try:
        body = decode("price", {**stated, **amounts})
    except InvalidInput as error:
        # It names the part of the act first.
        first = str(error).partition(" ")[0]
        raise InvalidInput(str(error), field=first if first in _FIELDS else "form") from error
    assert isinstance(body, Price)
    return body


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
