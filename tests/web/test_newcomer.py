"""What a newcomer stumbles over: words, addresses as they are typed, withdrawing, and refused files
that leave a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from app.docs_pages import words
from app.presenters.format import singular
from core.events.task import TaskStarted
from tests.web import pages_world
from tests.web.pages_world import WHO, World


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pages_world.world(tmp_path_factory.mktemp("new") / "data") as world:
        task = TaskStarted(title="the run", standing="reported")
        world.parts.runtime.create(
            WHO, request_id="r", standing="reported", task=task, trajectory_id="run"
        )
        assert world.parts.projector is not None
        world.parts.projector.catch_up()
        yield world


def _there(world: World, path: str) -> str:
    answer = world.client.get(path, follow_redirects=False)
    return str(answer.headers.get("location", answer.status_code))


def test_a_boundary_as_the_command_line_writes_it_is_an_address(desk: World) -> None:
    assert _there(desk, "/t/run@1") == "/t/run/@1"
    assert _there(desk, "/t/run@1?tab=state") == "/t/run/@1?tab=state"
    assert _there(desk, "/t/run@x") == "422" and _there(desk, "/t/..@1") in ("422", "404")


def test_the_words_of_the_pages_have_a_page(desk: World) -> None:
    page = desk.get("/docs/glossary")
    for word in ("unsettled", "unknown", "in-doubt", "open", "active", "standing", "generation"):
        assert f'<tr id="{word}">' in page
    assert len(words()) > 50 and 'href="/docs/glossary"' in desk.get("/trajectories")
    assert re.search(
        r'<a href="[^"]*sort=unsettled" title="operations without', desk.get("/trajectories")
    )


def test_withdrawing_is_reached_from_notes_and_undone_from_the_banner(desk: World) -> None:
    assert 'href="/t/run/withdraw"' in desk.get("/t/run/notes")
    page = desk.get("/t/run/withdraw")
    sent = dict(re.findall(r'name="(what|last|request_id)" value="([^"]*)"', page))
    assert sent["what"] == "withdraw"
    post = desk.client.post
    assert post("/t/run/withdraw", data=sent, follow_redirects=False).status_code == 422
    sent["reason"] = "a mistake"
    for _ in range(2):
        answer = post("/t/run/withdraw", data=sent, follow_redirects=False)
        assert answer.headers.get("location") == "/t/run", "sent twice, it is one act"
    notes = desk.get("/t/run/notes")
    assert "Bring it back" in notes and "withdraw it…" not in notes
    again = post(
        "/t/run/withdraw",
        data={**sent, "request_id": "another", "last": "1"},
        headers={"accept": "text/html"},
    )
    assert again.status_code == 422
    assert "was withdrawn already, by local at 20" in again.text.replace(WHO.name, "local")
    page = desk.get("/t/run/withdraw")
    sent = dict(re.findall(r'name="(what|last|request_id)" value="([^"]*)"', page))
    assert sent["what"] == "reinstate"
    answer = post("/t/run/withdraw", data={**sent, "reason": "r"}, follow_redirects=False)
    assert answer.status_code == 303 and "Bring it back" not in desk.get("/t/run/notes")


def test_refused_files_leave_a_trace(desk: World) -> None:
    health = desk.get("/health")
    assert "No write" in health and "No file of an import was refused" in health
    files = [("files", ("bad.jsonl", b"not a log\n")), ("files", ("cut.json", b'{"trajectory": '))]
    answer = desk.client.post("/import", files=files, follow_redirects=False)
    page = answer.headers["location"]
    until = 200
    while 'class="panel" aria-labelledby="refused"' not in desk.get("/import") and until:
        until -= 1
        desk.get(page)
    found = desk.get("/import")
    assert "Refused since this server started" in found and page in found
    assert re.search(r"\d files? refused", desk.get("/health"))
    assert "Every write was taken" not in desk.get("/health")


def test_one_of_many_is_said_as_one() -> None:
    assert singular("tokens of 1 replies: none") == "tokens of 1 reply: none"
    assert singular("1 messages are demonstrations") == "1 message is demonstrations"
    for text in ("tokens of 21 replies", "1.1 messages are", "0,1 replies"):
        assert singular(text) == text
