"""Secrets that are known by their own shape: keys of providers, web tokens, private keys, URLs.

Most are runs of word characters that begin with letters of their provider. So runs of at least
`RUN_MIN` are looked for once, whatever the number of rules, and a run is held against those rules
alone that share its first two bytes.

Built-in rules are numbered. A number never changes its meaning and none is taken away, since
sources remember the newest number they were read under.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

Hit = tuple[str, int, int]
"""Name of the rule, first byte, one past the last."""

RUN_MIN = 20
_PLAIN = rb"(?![A-Za-z0-9])"
_WORD = bytes(
    65 if (code < 128 and chr(code).isalnum()) or code in b"_-" else 32 for code in range(256)
)
_NEEDLE = b"A" * RUN_MIN


@dataclass(frozen=True, slots=True)
class TokenRule:
    """A secret that is a run of word characters with a beginning of its own."""

    number: int
    name: str
    heads: tuple[bytes, ...]
    """Its first two bytes, in every form it has."""
    pattern: re.Pattern[bytes]


def _rule(number: int, name: str, heads: str, pattern: bytes) -> TokenRule:
    return TokenRule(
        number, name, tuple(head.encode() for head in heads.split()), re.compile(pattern + _PLAIN)
    )


#: What a random part holds, but no word of a style sheet or a path: at least one digit.
_DIGIT = rb"(?=[A-Za-z0-9_-]{0,200}[0-9])"

_WEB_TOKEN = rb"eyJ[A-Za-z0-9_-]{10,8000}\.eyJ[A-Za-z0-9_-]{10,16000}\.[A-Za-z0-9_-]{0,4000}"

#: The number an editor or a tool puts before a line.
NUMBERED = rb" {0,8}[0-9]{1,6}(?:\\{1,16}t|\t|\xe2\x86\x92|[:|] ?| )"
_KEY_LINES = (
    rb"(?:[A-Za-z0-9+/=]|\\{1,16}(?:[rt/]|u00[0-9a-fA-F]{2})|\\{1,16}n(?:"
    + NUMBERED
    + rb")?){20,20000}"
)
#: Lines of a private key, from a place in the first of them on.
KEY_BODY = re.compile(_KEY_LINES)
#: Keys that begin with a long run of letters in the formats of OpenSSH and PKCS 8.
_KEY_RUN = re.compile(
    rb"(?=b3BlbnNzaC1rZXktdjEA|MII[A-Za-z0-9]{2}[AQgw]IBADANBgkqhkiG9w0B"
    rb"|MIG[A-Za-z0-9]AgEAM(?:BMGByqGSM49|BAGByqGSM49)|MC4CAQAwBQYDK2Vw)" + _KEY_LINES
)

TOKENS: tuple[TokenRule, ...] = (
    _rule(1, "anthropic-key", "sk", rb"sk-ant-[A-Za-z0-9_-]{16,400}"),
    _rule(2, "openai-key", "sk", rb"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{16,400}"),
    _rule(3, "openrouter-key", "sk", rb"sk-or-v1-[A-Za-z0-9]{32,100}"),
    _rule(4, "langfuse-key", "sk", rb"sk-lf-[0-9a-f-]{30,40}"),
    _rule(5, "api-key", "sk", rb"sk-" + _DIGIT + rb"[A-Za-z0-9_-]{20,400}"),
    _rule(6, "github-token", "gh", rb"gh[pousr]_[A-Za-z0-9_]{30,255}"),
    _rule(7, "github-token", "gi", rb"github_pat_[A-Za-z0-9_]{22,255}"),
    _rule(8, "gitlab-token", "gl", rb"gl(?:pat|dt|rt|ft|cbt|ptt|soat|agent)-[A-Za-z0-9_-]{20,320}"),
    _rule(9, "aws-key-id", "AK AS AB AC", rb"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}"),
    _rule(10, "google-api-key", "AI", rb"AIza[A-Za-z0-9_-]{35}"),
    _rule(11, "google-client-secret", "GO", rb"GOCSPX-[A-Za-z0-9_-]{24,40}"),
    _rule(12, "slack-token", "xo xa", rb"x(?:ox[abceoprs]|app)-[A-Za-z0-9-]{10,300}"),
    _rule(13, "stripe-key", "sk rk pk", rb"[srp]k_(?:live|test)_[A-Za-z0-9]{16,250}"),
    _rule(14, "stripe-webhook-secret", "wh", rb"whsec_[A-Za-z0-9+/]{24,100}"),
    _rule(15, "npm-token", "np", rb"npm_[A-Za-z0-9]{36}"),
    _rule(16, "pypi-token", "py", rb"pypi-[A-Za-z0-9_-]{40,400}"),
    _rule(17, "hugging-face-token", "hf ap", rb"(?:hf|api_org)_[A-Za-z0-9]{30,60}"),
    _rule(18, "groq-key", "gs", rb"gsk_[A-Za-z0-9]{40,80}"),
    _rule(19, "xai-key", "xa", rb"xai-[A-Za-z0-9]{60,100}"),
    _rule(20, "replicate-token", "r8", rb"r8_[A-Za-z0-9]{30,60}"),
    _rule(21, "perplexity-key", "pp", rb"pplx-[A-Za-z0-9]{40,80}"),
    _rule(22, "tavily-key", "tv", rb"tvly-" + _DIGIT + rb"[A-Za-z0-9_-]{20,80}"),
    _rule(23, "nvidia-key", "nv", rb"nvapi-[A-Za-z0-9_-]{50,100}"),
    _rule(24, "langsmith-key", "ls", rb"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _rule(25, "docker-token", "dc", rb"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,60}"),
    _rule(26, "digitalocean-token", "do", rb"do[opr]_v1_[0-9a-f]{64}"),
    _rule(27, "shopify-token", "sh", rb"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _rule(28, "linear-key", "li", rb"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}"),
    _rule(29, "notion-token", "nt", rb"ntn_[A-Za-z0-9]{40,60}"),
    _rule(30, "sentry-token", "sn", rb"sntry[su]_[A-Za-z0-9+/=_-]{40,300}"),
    _rule(31, "grafana-token", "gl", rb"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    _rule(32, "pulumi-token", "pu", rb"pul-[0-9a-f]{40}"),
    _rule(33, "tailscale-key", "ts", rb"tskey-[a-z]{3,10}-[A-Za-z0-9-]{12,80}"),
    _rule(34, "figma-token", "fi", rb"fig[doru]_[A-Za-z0-9_-]{30,80}"),
    _rule(35, "databricks-token", "da", rb"dapi[0-9a-f]{32}(?:-[0-9])?"),
    _rule(36, "rubygems-key", "ru", rb"rubygems_[0-9a-f]{48}"),
    _rule(37, "twilio-key", "SK", rb"SK[0-9a-f]{32}"),
    _rule(38, "strandline-token", "st", rb"stl_[A-Za-z0-9_-]{32,64}"),
    _rule(39, "telegram-token", "AA", rb"(?<=[0-9]:)AA[A-Za-z0-9_-]{33}"),
    _rule(40, "web-token", "ey", _WEB_TOKEN),
    TokenRule(63, "private-key", (b"b3", b"MI", b"MC"), _KEY_RUN),
)  # fmt: skip
_BY_HEAD: dict[bytes, tuple[TokenRule, ...]] = {
    head: tuple(rule for rule in TOKENS if head in rule.heads)
    for head in {head for rule in TOKENS for head in rule.heads}
}


@dataclass(frozen=True, slots=True)
class PlaceRule:
    """A secret that stands at a landmark; the range is the group `secret`."""

    number: int
    name: str
    pattern: re.Pattern[bytes]
    """Begins with plain bytes, which is what makes it quick."""


_BODY = (
    rb"(?P<secret>(?:\\{1,16}n[A-Za-z-]{4,20}: [A-Za-z0-9,-]{1,80}){0,4}"
    rb"(?:[A-Za-z0-9+/=]|\\{1,16}(?:[rt/]|u00[0-9a-fA-F]{2})"
    rb"|\\{1,16}n(?: {0,8}[0-9]{1,6}(?:\\{1,16}t|\xe2\x86\x92|[:|] ?| ))?){16,20000})"
)
PLACES: tuple[PlaceRule, ...] = (
    PlaceRule(
        50,
        "private-key",
        re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----" + _BODY),
    ),
    PlaceRule(
        51,
        "private-key-line",
        re.compile(rb"\n(?P<secret>[A-Za-z0-9+/]{40,200}={0,2})(?=\r?(?:\n|\Z))"),
    ),
    PlaceRule(
        52,
        "url-password",
        re.compile(
            rb"://[^\s/?#\"'`\\@:<>{}$()]{0,200}:(?P<secret>[^\s/\"'`\\@<>{}$()]{3,300})@(?=[A-Za-z0-9\[])"
        ),
    ),
    PlaceRule(
        53,
        "url-password",
        re.compile(
            rb":\\/\\/[^\s/?#\"'`\\@:<>{}$()]{0,200}:(?P<secret>[^\s/\"'`\\@<>{}$()]{3,300})@(?=[A-Za-z0-9\[])"
        ),
    ),
    PlaceRule(
        54,
        "slack-webhook",
        re.compile(
            rb"hooks\.slack\.com(?:\\?/)(?:services|workflows)(?:\\?/)"
            rb"(?P<secret>[A-Za-z0-9+_-]{6,60}(?:\\?/)[A-Za-z0-9+_-]{6,60}(?:\\?/)[A-Za-z0-9+_-]{12,80})"
        ),
    ),
    PlaceRule(55, "google-token", re.compile(rb"ya29\.(?P<secret>[A-Za-z0-9_-]{20,400})")),
    PlaceRule(
        56,
        "sendgrid-key",
        re.compile(rb"SG\.(?P<secret>[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50})"),
    ),
    PlaceRule(57, "vault-token", re.compile(rb"hv[sb]\.(?P<secret>[A-Za-z0-9_-]{24,200})")),
)
_LINE = re.compile(rb"(?P<secret>[A-Za-z0-9+/]{40,200}={0,2})(?=\r?(?:\n|\Z))")
#: Stand-ins that people write where a password would be.
_STAND_INS = frozenset(
    (b"password", b"passwd", b"pass", b"pwd", b"pw", b"secret", b"token", b"xxx", b"xxxx", b"***")
)

NEWEST = max(*(one.number for one in TOKENS), *(one.number for one in PLACES))


def find(data: bytes, newest: int) -> Iterator[Hit]:
    """What the rules up to `newest` find, in no order."""
    yield from _runs(data, newest)
    for rule in PLACES:
        if rule.number > newest:
            continue
        for match in rule.pattern.finditer(data):
            start, end = match.span("secret")
            if rule.name != "url-password" or not _stand_in(data[start:end]):
                yield rule.name, start, end
        if rule.name == "private-key-line":
            first = _LINE.match(data)
            if first is not None:
                yield rule.name, *first.span("secret")


def _stand_in(value: bytes) -> bool:
    return value.lower() in _STAND_INS or value.startswith((b"*", b"[redac", b"%"))


def _runs(data: bytes, newest: int) -> Iterator[Hit]:
    """Runs of word characters that a rule knows."""
    marked = data.translate(_WORD)
    seek, heads = marked.find, _BY_HEAD.get
    at = 0
    while (start := seek(_NEEDLE, at)) >= 0:
        at = seek(b" ", start + RUN_MIN)
        if at < 0:
            at = len(data)
        rules = heads(data[start : start + 2])
        if rules is not None:
            yield from _match(rules, data, start, newest)
        if start and data[start - 1] in b"\\[;":
            behind = _behind_escape(data, start)
            rules = heads(data[behind : behind + 2])
            if behind != start and rules is not None:
                yield from _match(rules, data, behind, newest)


def _match(rules: tuple[TokenRule, ...], data: bytes, start: int, newest: int) -> Iterator[Hit]:
    for rule in rules:
        match = rule.pattern.match(data, start) if rule.number <= newest else None
        if match is not None:
            yield rule.name, start, match.end()
            return


_ESCAPE = re.compile(rb"(?<=\\)(?:[bfnrt]|u[0-9a-fA-F]{4})|(?<=[\[;])[0-9]{0,3}m")


def _behind_escape(data: bytes, start: int) -> int:
    r"""Where the run begins if its first letters end an escape (`\n`, `\u001b`, a colour)."""
    match = _ESCAPE.match(data, start)
    return match.end() if match is not None else start
