"""Secrets are hidden at the same length, at any depth of quoting, in linear time."""

from __future__ import annotations

import json
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ImportRefused, InvalidInput
from ingest import redact_names, redact_own, redact_tokens
from ingest.redact import NO_RULES, Rules, agrees, as_known, cover, redact
from ingest.redact_own import OwnRule
from tests.require import ROOT, need, samples, samples_generated

ALL = Rules()


def made(*parts: str) -> str:
    """A key of our own making, put together so that no scanner takes this file for a leak."""
    return "".join(parts)


PROVIDERS = {
    "anthropic-key": made("sk-", "ant-api03-", "Ab1" * 20),
    "openai-key": made("sk-", "proj-", "aB3" * 20),
    "api-key": made("sk-", "aB3" * 16),
    "github-token": made("gh", "p_", "a1B2" * 9),
    "gitlab-token": made("gl", "pat-", "a1B2" * 5),
    "aws-key-id": made("AK", "IA", "A2B3" * 4),
    "google-api-key": made("AI", "za", "Sy1-_" * 7),
    "slack-token": made("xo", "xb-", "123456789012-", "abcdefABCDEF"),
    "stripe-key": made("sk", "_live_", "a1" * 14),
    "npm-token": made("np", "m_", "a1B2" * 9),
    "hugging-face-token": made("h", "f_", "aBcD" * 9),
    "sendgrid-key": made("S", "G.", "a1" * 11, ".", "b2" * 21 + "c"),
    "google-token": made("ya", "29.", "a1-_" * 10),
    "telegram-token": made("123456789:", "AA", "b1-" * 11),
    "strandline-token": made("st", "l_", "a1B2" * 10),
    "web-token": made("ey", "JhbGciOiJIUzI1NiJ9", ".ey", "JzdWIiOiIxMjM0NTYifQ", ".dozjgNryP4J3"),
}  # fmt: skip
PEM = (
    made("-----BEGIN RSA ", "PRIVATE KEY-----\n")
    + "MIIEpAIBAAKCAQEA0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ\n" * 4
    + "c2hvcnQ=\n-----END RSA PRIVATE KEY-----"
)


def nested(text: str, depth: int) -> bytes:
    """`text` inside JSON inside JSON ..."""
    for _ in range(depth):
        text = json.dumps({"t": text})
    return text.encode()


def names(data: bytes) -> list[str]:
    return [one.rule for one in redact(data, ALL)[1]]


@pytest.mark.parametrize("rule", PROVIDERS)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_providers_key_is_hidden_wherever_it_stands(rule: str, depth: int) -> None:
    key = PROVIDERS[rule]
    for text in (
        f"see {key} there",
        f"x\n{key}\nend",
        f"\x1b[31m{key}\x1b[0m",
        f"é{key}é",
        json.dumps({"headers": {"x": key}}),
        f"export K={key}",
        f"('{key}',)",
    ):
        before = nested(text, depth)
        after, found = redact(before, ALL)
        assert [one.rule for one in found] == [rule], text
        assert len(after) == len(before)
        assert key.rpartition(".")[2].rpartition(":")[2][-8:].encode() not in after
        if depth:
            json.loads(after)


NAMED = (
    ('{"password":"hunter22"}', "hunter22"),
    ('{"password": "hun\\"ter\\\\"}', 'hun"ter'),
    ("DB_PASSWORD=hunter2", "hunter2"),
    ("export PGPASSWORD='s3cr3t!x'", "s3cr3t!x"),
    ("password: hunter2", "hunter2"),
    ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
    ('{"Authorization": "Bearer abcdef0123456789abcdef"}', "abcdef0123456789abcdef"),
    ('curl -H "X-Api-Key: 0123456789abcdef"', "0123456789abcdef"),
    ("postgres://bob:s3cretpw@db.example.com/x", "s3cretpw"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"),
    ("{'client_secret': 'abcDEF123456'}", "abcDEF123456"),
    ("GITHUB_TOKEN=abcdefghi", "abcdefghi"),
    ('{"token": "abcdef0123456789abcd"}', "abcdef0123456789abcd"),
    ('accessToken: "zzzzzz9"', "zzzzzz9"),
    ("AccountKey=abc123+/=xyz==;End", "abc123+/=xyz=="),
    ("redis_password=pässwört1", "pässwört1"),
    ("'redis_password': 'pässwört1'", "pässwört1"),
)


@pytest.mark.parametrize(("text", "secret"), NAMED)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_what_stands_under_a_secrets_name_is_hidden(text: str, secret: str, depth: int) -> None:
    before = nested(text, depth)
    after, found = redact(before, ALL)
    assert len(found) == 1, after
    assert len(after) == len(before)
    assert json.dumps(secret)[1:-1].encode() not in after
    assert secret.encode() not in after
    if depth:
        json.loads(after)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("numbered", [False, True])
def test_a_private_key_is_hidden_between_its_marks(depth: int, numbered: bool) -> None:
    lines = PEM.split("\n")
    text = "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(lines, 1)) if numbered else PEM
    after, found = redact(nested(f"{text}\nand so on", depth), ALL)
    assert [one.rule for one in found] == ["private-key"]
    assert b"MIIE" not in after
    assert b"c2hvcnQ" not in after
    assert b"and so on" in after
    json.loads(after)


def test_lines_of_a_private_key_that_was_pasted_raw_are_hidden() -> None:
    after = redact(b'{"a":1}\n' + PEM.encode() + b'\n{"b":2}\n', ALL)[0]
    assert b"MIIE" not in after
    assert after.endswith(b'\n{"b":2}\n')


LEFT = (
    '{"token": "Hello", "logprob": -0.1}',
    "password = get_password()",
    'api_key=os.environ["K"]',
    "api_key=config.api_key",
    "token=token, secret=secret",
    "def f(secret: str, password: Optional[str] = None)",
    '{"input_tokens": 1234567, "max_tokens": 4096}',
    '{"password": 1234567, "secret": null, "api_key": true}',
    '{"a":"password: ",  "b":123456, "c":"x"}',
    '{"type":"password","name":"x1y2z3"}',
    "public_key: 0123456789abcdef",
    'password="password" or "changeme"',
    'label = "Password: Enter your password"',
    "API_KEY=$API_KEY TOKEN=${TOKEN} PASSWORD=<your password>",
    '"api_key": "YOUR-API-KEY-HERE"',
    '"api_key": "..."',
    "https://example.com:8080/a@b and http://user@host/",
    "sk-learn-contrib and sk-toggleable__content-label",
    "d41d8cd98f00b204e9800998ecf8427e 550e8400-e29b-41d4-a716-446655440000",
    "toolu_01AbCdEfGhIjKlMnOpQrStUv msg_01AbCdEfGhIjKlMnOpQrStUv",
    "keyboard: qwerty123456 monkey: banana12345",
    '{"is_secret": "yes12345", "has_token": "abcdef0123456789abcdef"}',
)


@pytest.mark.parametrize("text", LEFT)
def test_what_is_no_secret_is_left(text: str) -> None:
    for depth in range(3):
        assert names(nested(text, depth)) == []


def test_the_samples_raise_no_false_alarm() -> None:
    need("samples")
    need("samples_generated")
    found = [
        (path.name, one.rule)
        for root in (samples(), samples_generated())
        for path in root.rglob("*")
        if path.is_file()
        for one in redact(path.read_bytes(), ALL)[1]
    ]
    assert found == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(
        [
            *PROVIDERS.values(),
            *(text for text, _ in NAMED),
            *LEFT,
            PEM,
            'a "password": "x\\"y12345" b',
            "password: ",
            "token='",
            "secret=",
            "\\",
            "Bearer 0123456789abcdef0",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["password", "api_key", "a", "token", "my password:"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
        | inner.map(json.dumps)
    ),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    """A value with its texts left out."""
    if isinstance(value, dict):
        return [shape(one) for one in value.values()]
    if isinstance(value, list):
        return [shape(one) for one in value]
    return "text" if isinstance(value, str) else value


@settings(max_examples=300, deadline=None)
@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_json_stays_json_of_the_same_shape(value: Any, indent: int | None, ascii_: bool) -> None:
    before = json.dumps(value, indent=indent, ensure_ascii=ascii_).encode("utf-8", "surrogatepass")
    after, found = redact(before, ALL)
    assert len(after) == len(before)
    if found:
        assert shape(json.loads(after)) == shape(json.loads(before))
    again, more = redact(after, ALL)
    assert again == after or more


@settings(max_examples=100, deadline=None)
@given(st.lists(JSON, min_size=2, max_size=6), st.data())
def test_whole_lines_give_the_same_together_and_apart(values: list[Any], data: Any) -> None:
    lines = [json.dumps(value).encode() + b"\n" for value in values]
    cut = data.draw(st.integers(0, len(lines)))
    together = redact(b"".join(lines), ALL)[0]
    apart = redact(b"".join(lines[:cut]), ALL)[0] + redact(b"".join(lines[cut:]), ALL)[0]
    assert together == apart


def test_what_is_hidden_already_is_not_counted_again() -> None:
    text = "\n".join((*PROVIDERS.values(), *(one for one, _ in NAMED)))
    once, first = redact(nested(text, 1), ALL)
    assert first
    assert redact(once, ALL) == (once, [])


def test_the_cover_has_the_secrets_length() -> None:
    assert cover("x", 16) == b"[redacted:x]****"
    assert cover("named-secret", 6) == b"[redac"


HOSTILE = (
    b"eyJ", b"eyJ" + b"a" * 20 + b".", b"sk-" + b"a" * 30 + b" ", b"://", b"://a:", b'"password:",',
    b'password="', b'password=\\"', b'password:"\\\\\\', b"token=", b"token=1a", b'token="a',
    b"-----BEGIN PRIVATE KEY-----", b"-----BEGIN PRIVATE KEY-----" + b"A" * 20, b"\\n", b"\n",
    b"bearer a1", b"\\", b'"', b"secret=$", b"password=\xc3\xa9", b"password: a1 ",
    b'password=\\\\\\"password=\\"', b"password=" + b"x" * 300, b"1:AA" + b"a" * 18,
)  # fmt: skip


def test_no_input_takes_for_ever() -> None:
    own = Rules(own=(OwnRule("staff", "EMP-[0-9]{6,8}"),))
    for piece in HOSTILE:
        data = (piece * (400_000 // len(piece)))[:400_000]
        began = time.process_time()
        redact(data, own)
        assert time.process_time() - began < 4, piece[:40]


def test_every_number_is_given_once_and_kept() -> None:
    numbers = [one.number for one in (*redact_tokens.TOKENS, *redact_tokens.PLACES)]
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) == redact_tokens.NEWEST < 60 <= redact_names.NEWEST == Rules().builtin
    heads = {one.pattern.pattern[:2] for one in redact_tokens.TOKENS}
    assert heads  # each rule's sample above is found by its head
    by_number = {one.number: one.name for one in redact_tokens.TOKENS}
    assert (by_number[1], by_number[9], by_number[40]) == (
        "anthropic-key",
        "aws-key-id",
        "web-token",
    )


def test_rules_up_to_a_number_are_those_of_then() -> None:
    text = f"{PROVIDERS['anthropic-key']} {PROVIDERS['npm-token']} password=hunter22".encode()
    assert [one.rule for one in redact(text, Rules(1))[1]] == ["anthropic-key"]
    assert len(redact(text, Rules(15))[1]) == 2
    assert len(redact(text, ALL)[1]) == 3
    assert redact(text, NO_RULES) == (text, [])


# --- rules of one's own ----------------------------------------------------------------------


def written(folder: Path, text: str) -> Path:
    (folder / redact_own.FILE).write_text(text)
    return folder


def test_own_rules_hide_too(tmp_path: Path) -> None:
    rules = redact_own.load(
        written(
            tmp_path, '[[rule]]\nname = "staff"\npattern = "EMP-[0-9]{4,8}"\nignore_case = true'
        )
    )
    after, found = redact(b'{"a":"see emp-123456 now"}', Rules(own=rules))
    assert after == b'{"a":"see [redacted: now"}'
    assert [one.rule for one in found] == ["staff"]
    assert redact_own.load(tmp_path / "none") == ()


WRONG = (
    ("[[rule", "is no TOML"),
    ("[rules]\na = 1", "'rules'; only [[rule]] is known"),
    ('[[rule]]\npattern = "a"', "name is 1 to 40"),
    ('[[rule]]\nname = "A B"\npattern = "a"', "name is 1 to 40"),
    ('[[rule]]\nname = "a"', "pattern is a regular expression"),
    ('[[rule]]\nname = "a"\npattern = "("', "is no regular expression"),
    ('[[rule]]\nname = "a"\npattern = "a+"', "'+' repeats without a bound"),
    ('[[rule]]\nname = "a"\npattern = ".*x"', "'*' repeats without a bound"),
    ('[[rule]]\nname = "a"\npattern = "a{3,}"', "has no upper bound"),
    ('[[rule]]\nname = "a"\npattern = "(?=x)y"', "only plain groups"),
    ('[[rule]]\nname = "a"\npattern = "(a)\\\\1"', "cannot refer back"),
    ('[[rule]]\nname = "a"\npattern = "(a{1,90}){1,90}"', "ways to try"),
    ('[[rule]]\nname = "a"\npattern = "a"\nwhere = "b"', "'where' is not known"),
    ('[[rule]]\nname = "a"\npattern = "a"\n[[rule]]\nname = "a"\npattern = "b"', "two rules named"),
)


@pytest.mark.parametrize(("text", "why"), WRONG)
def test_a_wrong_file_of_rules_says_what_to_mend(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=r"redaction\.toml in") as caught:
        redact_own.load(written(tmp_path, text))
    assert why in str(caught.value)
    assert "nothing is imported until it is mended" in str(caught.value)


def test_classes_and_escapes_are_no_repeats(tmp_path: Path) -> None:
    (rule,) = redact_own.load(
        written(tmp_path, "[[rule]]\nname = \"a\"\npattern = '[*+^\\]]{2}\\+\\*(?:x|y)?'")
    )
    assert redact(b"see *+]+*x", Rules(own=(rule,)))[1]


@pytest.mark.parametrize(
    "line", [b'{"a": 1234567890123456}', b"1234567890123456", b'{"a":"x\\u12345678901234567"}']
)
def test_an_own_rule_that_would_break_the_file_is_refused(line: bytes) -> None:
    rules = Rules(0, (OwnRule("card", "[0-9]{16}"),))
    with pytest.raises(ImportRefused, match=r"'card' of redaction\.toml"):
        redact(line, rules)
    assert redact(b'{"a": "1234567890123456"}', rules)[1]
    assert redact(b"no JSON 1234567890123456", rules)[1]


# --- reading again ---------------------------------------------------------------------------


def test_known_bytes_are_compared_under_the_rules_they_were_read_under() -> None:
    raw = f'{{"a":"{PROVIDERS["npm-token"]} and password=hunter22"}}'.encode()
    old = Rules(15)
    known = redact(raw, old)[0]
    assert agrees(raw, known, old.mark, ALL)
    assert agrees(raw, known, old.mark, NO_RULES)
    assert agrees(raw, raw, NO_RULES.mark, ALL)
    assert not agrees(raw.replace(b"and", b"AND"), known, old.mark, ALL)
    assert not agrees(raw + b" ", known, old.mark, ALL)
    assert not agrees(raw, redact(raw, ALL)[0], old.mark, ALL)


def test_own_rules_may_change_between_readings() -> None:
    raw = b'{"a":"EMP-123456 in CORP-77 with words around"}'
    first = Rules(own=(OwnRule("staff", "EMP-[0-9]{6}"),))
    known = redact(raw, first)[0]
    for now in (ALL, Rules(own=(OwnRule("corp", "CORP-[0-9]{2}"),)), NO_RULES):
        assert now.under(first.mark) is None
        assert agrees(raw, known, first.mark, now)
        assert not agrees(raw.replace(b"words", b"WORDS"), known, first.mark, now)


def test_a_known_document_is_read_on_as_it_was_kept() -> None:
    key, other = PROVIDERS["npm-token"], PROVIDERS["anthropic-key"]
    old = f'["{key}","{other}"]'.encode()
    kept = redact(old, Rules(1))[0]
    grown = f'["{key}","{other}","{PROVIDERS["github-token"]}"]'.encode()
    read = as_known(grown, ALL, [Rules(1).mark], [kept])
    assert read.startswith(kept[:-1])
    assert b"ghp_" not in read


def test_the_document_names_every_rule() -> None:
    text = (ROOT / "docs" / "redaction.md").read_text()
    table = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    known = {one.name for one in (*redact_tokens.TOKENS, *redact_tokens.PLACES)}
    known |= {redact_names.RULE, redact_names.BEARER_RULE}
    assert set(re.findall(r"`([a-z0-9-]+)`", table)) == known
    example = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    assert [one.name for one in redact_own.parse(tomllib.loads(example[1]), Path("x"))] == [
        "staff-number"
    ]
