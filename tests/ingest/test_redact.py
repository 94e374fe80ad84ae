"""Secrets are hidden at the same length, at any depth of quoting, in linear time."""

from __future__ import annotations

import json
import random
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ImportRefused, InvalidInput
from ingest import redact_names, redact_own, redact_places, redact_tokens, redact_view
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
    "Cookie: theme=dark; path=/; max-age=3600 and cookie=value",
    "docker run -u 1000:1000 -p8080:80 image; curl -o x https://x.example:8443/",
    "mysql -u root -p$PASS; mkdir -pv a/b; mysql -u root -p shop",
    "curl -u $USER:$PASS -u user:password -u '<user>:<password>' x",
    "the machine has a login and a password",
    '{"auth": "Bearer", "author": "bobbob12", "auth": "bm9jb2xvbg=="}',
    "?sig=abc&signature=none",
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


AROUND = (
    ("cookie", "Cookie: theme=dark; sessionid=abc123def; lang=en", "abc123def"),
    ("cookie", "Set-Cookie: connect.sid=s%3Aabc123; Path=/; HttpOnly", "s%3Aabc123"),
    ("cookie", '{"Cookie": "JSESSIONID=0123456789ABCDEF"}', "0123456789ABCDEF"),
    ("cookie", "curl --cookie 'auth_session=zzz999' https://x.example", "zzz999"),
    ("command-password", "curl -s -u bob:hunter2x https://x.example", "hunter2x"),
    ("command-password", 'curl --user "bob:two words" https://x.example', "two words"),
    ("command-password", "curl 'https://x.example/?a=1&b=2' \\\n  -u bob:hunter2x", "hunter2x"),
    ("command-password", "sshpass -p hunter2x ssh bob@host", "hunter2x"),
    ("command-password", "sshpass -p 'hunter 2x' ssh bob@host", "hunter 2x"),
    ("command-password", "mysql -h db -u root -phunter2x shop", "hunter2x"),
    ("command-password", "mysqldump -uroot -p'hunter 2x' shop", "hunter 2x"),
    ("netrc-password", "machine x.example login bob password hunter2x", "hunter2x"),
    ("netrc-password", "machine x.example\n\tlogin bob\n\tpassword hunter2x\n", "hunter2x"),
    (
        "link-signature",
        "https://a.example/c?sv=2022-11-02&sig=" + "aB3%2F" * 8 + "%3D&se=1",
        "aB3%2F" * 8,
    ),
    ("registry-login", '{"auths":{"r.example":{"auth":"Ym9iOmh1bnRlcjJ4"}}}', "Ym9iOmh1bnRlcjJ4"),
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(
        [
            *PROVIDERS.values(),
            *(text for text, _ in NAMED),
            *(text for _, text, _ in AROUND),
            *LEFT,
            PEM,
            PEM.partition("\n")[2],
            "curl -u a:",
            "Cookie: sid=",
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


def excerpt(depth: int, part: slice, *, numbered: bool) -> tuple[bytes, list[bytes]]:
    """Some lines of a private key inside JSON, and those of them that are secret."""
    body = [
        "MIIEpAIBAAKCAQEA" + "aB3/" * 12,
        *(f"{n}xY+" * 16 for n in range(1, 5)),
        "c2hvcnQ=",
        made("-----END RSA ", "PRIVATE KEY-----"),
    ][part]
    text = "\n".join(f"{n:>6}\t{one}" if numbered else one for n, one in enumerate(body, 3))
    for _ in range(depth):
        text = json.dumps({"t": f"{text}", "z": "end"})
    return text.encode(), [one.encode() for one in body if "-----" not in one]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("part", [slice(0, 3), slice(1, 7), slice(3, 7), slice(0, 7)])
def test_an_excerpt_of_a_private_key_is_hidden_by_either_end(
    depth: int, numbered: bool, part: slice
) -> None:
    before, secret = excerpt(depth, part, numbered=numbered)
    after, found = redact(before, ALL)
    assert {one.rule for one in found} == {"private-key"}
    assert [one for one in secret if one in after] == []
    assert shape(json.loads(after)) == shape(json.loads(before))
    assert b"end" in after


def test_keys_of_every_format_are_known_by_their_first_line() -> None:
    heads = (
        "MIIEpAIBAAKCAQEAw/8+1234", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "MHcCAQEEIBxX+12345/6",
        "MIGkAgEBBDDw9JTRZuzyKJFa", "MIHcAgEBBEIBbK5g8fzGx6Xq", "MC4CAQAwBQYDK2VwBCIEIKs1",
        "MIGHAgEAMBMGByqGSM49AgEG", "MIG2AgEAMBAGByqGSM49AgEG",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU",
    )  # fmt: skip
    for head in heads:
        line = head.ljust(64, "k") + "\n" + "Zz9/" * 12
        for depth in (1, 2):
            after, found = redact(nested(f"here:\n{line}\nthere", depth), ALL)
            assert [one.rule for one in found] == ["private-key"], head
            assert b"Zz9/" not in after


def test_what_only_looks_like_lines_of_a_key_is_left() -> None:
    certificate = "MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ"
    for text in (
        f"-----BEGIN CERTIFICATE-----\n{certificate}\n-----END CERTIFICATE-----",
        "a" * 64 + "\n" + "b" * 64,
        "words\n-----END RSA PRIVATE KEY-----",
        "MIIEpAIBAAKC",
    ):
        for depth in (1, 2, 3):
            assert names(nested(text, depth)) == [], text


@pytest.mark.parametrize(("rule", "text", "secret"), AROUND)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_what_the_words_around_it_announce_is_hidden(
    rule: str, text: str, secret: str, depth: int
) -> None:
    before = nested(text, depth)
    after, found = redact(before, ALL)
    assert [one.rule for one in found] == [rule]
    assert secret.encode() not in after
    assert shape(json.loads(after)) == shape(json.loads(before))


def spelled(data: bytes, chosen: random.Random, layers: int) -> bytes:
    """JSON that says the same with some of its plain letters written as escapes."""
    for _ in range(layers):
        out, at = bytearray(), 0
        inside = False
        while at < len(data):
            code = data[at]
            if inside and code == 0x5C:
                step = 6 if data[at + 1] == 0x75 else 2
                short = {0x22: 0x22, 0x5C: 0x5C, 0x6E: 10, 0x74: 9}.get(data[at + 1])
                if short is not None and chosen.random() < 0.3:
                    out += b"\\u%04x" % short
                else:
                    out += data[at : at + step]
                at += step
                continue
            if code == 0x22:
                inside = not inside
            elif inside and 0x20 <= code < 0x7F and chosen.random() < 0.3:
                out += b"\\u%04X" % code
                at += 1
                continue
            out.append(code)
            at += 1
        data = bytes(out)
    return data


SECRETS = (
    *((f"x {key} y", key, rule) for rule, key in PROVIDERS.items()),
    *((text, secret, "") for text, secret in NAMED if secret.isascii() and '"' not in secret),
    *((text, secret, rule) for rule, text, secret in AROUND),
    (PEM, "MIIEpAIBAAKCAQEA0123456789", "private-key"),
    (PEM.partition("\n")[2], "abcdefghijklmnopqrstuvwxyzABCD", "private-key"),
)


@pytest.mark.parametrize(("text", "secret", "rule"), SECRETS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_escapes_hide_no_secret(text: str, secret: str, rule: str, depth: int) -> None:
    for seed in range(6):
        chosen = random.Random(seed)
        said: Any = text
        data = b""
        for _ in range(depth):
            data = spelled(json.dumps({"t": said, "u": "end"}).encode(), chosen, 1)
            said = data.decode()
        after, found = redact(data, ALL)
        assert {one.rule for one in found} >= ({rule} if rule else set()), data
        assert len(after) == len(data)
        assert shape(json.loads(after)) == shape(json.loads(data))
        inner = after
        for _ in range(depth):
            inner = json.loads(inner)["t"].encode()
        assert secret.rpartition(".")[2].rpartition(":")[2][-8:].encode() not in inner, data
        assert redact(after, ALL) == (after, [])


@pytest.mark.parametrize(
    "line",
    [
        r"\u0073k-ant-api03-" + "Ab1" * 20,
        r"gh\u0070_" + "a1B2" * 9,
        r"DB_PASSWORD=\u0027hunter22\u0027",
        r"passw\u006frd: hunter22",
        r"\u0022password\u0022:\u0022hunter22\u0022",
        r"TOKEN=\u0022a1B2c3D4e5F6g7H8\u0022",
        r"\u0026password=hunter22",
        r"pass\u005cu0077ord=hunter22",
        r"DB_PASSWORD\u003dhunter22",
    ],
)
def test_escapes_are_read_outside_of_json_too(line: str) -> None:
    after, found = redact(line.encode(), ALL)
    assert len(found) == 1
    assert b"unter22" not in after
    assert b"Ab1Ab1" not in after


def test_what_is_no_secret_is_left_however_it_is_written() -> None:
    for text in LEFT:
        for seed in range(4):
            chosen = random.Random(seed)
            data = spelled(json.dumps({"t": text}).encode(), chosen, 1)
            assert names(data) == [], data
    assert names(rb'{"t":"password=\u003cyour-password-2\u003e"}') == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([
    b"\\", b"\\\\", b"u0073", b"u005c", b"u0022", b"u000a", b"u001b", b"sk-", b"password=",
    b"x1y2z3", b'"', b"\n", b"\\u0022", b"\\\\u0022", b"-ant-api03-aaaaaaaaaaaaaaaaaaaaaaa1",
]), max_size=30))  # fmt: skip
def test_the_way_back_from_a_view_is_true(parts: list[bytes]) -> None:
    data = b"".join(parts)
    view = redact_view.of(data)
    assert len(view.text) <= 2 * len(data)
    ranges = [view.range(at, at + 1) for at in range(len(view.text))]
    assert all(0 <= start < end <= len(data) for start, end in ranges)
    assert [start for start, _ in ranges] == sorted(start for start, _ in ranges)
    assert b"".join(data[start:end] for start, end in dict.fromkeys(ranges)) == data
    apart = [redact(one, ALL)[0] for one in data.splitlines(keepends=True)]
    assert b"".join(apart) == redact(data, ALL)[0]


@settings(max_examples=300, deadline=None)
@given(JSON, st.sampled_from([None, 1]), st.booleans(), st.randoms(), st.booleans())
def test_json_stays_json_of_the_same_shape(
    value: Any, indent: int | None, ascii_: bool, chosen: random.Random, spell: bool
) -> None:
    before = json.dumps(value, indent=indent, ensure_ascii=ascii_).encode("utf-8", "surrogatepass")
    before = spelled(before, chosen, 1) if spell else before
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
    b"\\u0073", b"\\", b"\\u005c", b"\\\\u005c", b"u0073", b"\\" * 16 + b"u005c", b"\\u0022",
    b"\\u005cu005c", b"cookie=", b"cookie: sid=a1;", b"cookie a=", b"curl -u a:", b" -u a:bcd",
    b"curl ", b"mysql -pabc", b"mysql ", b" -p'a", b"sshpass -p '", b"machine ", b"&sig=",
    b"machine a login b password ", b"&sig=" + b"a" * 39, b'auth":"', b'auth":"' + b"a" * 30,
    b"-----END PRIVATE KEY-----", b"\\n" + b"a" * 64, b"IBAAKC", b"MIIEpAIBAAKC", b"MIGkAgEBB",
    b"aaaa\\n-----END PRIVATE KEY-----", b"MHcCAQEEI\\n", b"b3BlbnNzaC1rZXktdjEA ",
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
    numbers += [redact_names.NEWEST, redact_view.NUMBER]
    numbers += [one.number for one in redact_places.AROUND]
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) == Rules().builtin
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
    known |= {one.name for one in redact_places.AROUND}
    known |= {redact_names.RULE, redact_names.BEARER_RULE}
    assert set(re.findall(r"`([a-z0-9-]+)`", table)) == known
    example = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    assert [one.name for one in redact_own.parse(tomllib.loads(example[1]), Path("x"))] == [
        "staff-number"
    ]
