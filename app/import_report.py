"""An import's report on the command line: the documented JSON line, or a paragraph for a person."""

from __future__ import annotations

from typing import Any

from app import console
from app.presenters import format as fmt

Wire = dict[str, Any]
_BUCKETS = ("input", "output", "cache_read", "cache_write")


def line(document: Wire) -> Wire:
    """`path, format, trajectories, refused, tokens`, exactly as documented."""
    tokens = document["tokens"]
    return {
        "path": document["path"],
        "format": document["format"],
        "trajectories": [
            {key: item[key] for key in ("id", "events", "head", "chain")}
            for item in document["trajectories"]
        ],
        "refused": [{"where": item["where"], "why": item["why"]} for item in document["refused"]],
        "tokens": {name: tokens[name] for name in _BUCKETS},
    }


def show(document: Wire) -> None:
    """What became of one file."""
    known = f" ({console.safe(document['format'])})" if document["format"] else ""
    console.say(f"{console.safe(document['path'], 400)}: {document['outcome']}{known}")
    for item in document["trajectories"]:
        console.say(
            f"  {item['id']}  {fmt.plural(item['events'], 'event')}, "
            f"{fmt.count(item['appended'])} new, head {item['head']}  "
            f"{console.safe(item['title'], 80)}"
        )
    if document["trajectories"]:
        console.say(f"  tokens: {_tokens(document['tokens'])}")
    for gap in document["gaps"]:
        console.say(f"  not recorded: {console.safe(gap['what'])}: {console.safe(gap['why'], 300)}")
    for text in document["notes"]:
        console.say(f"  note: {console.safe(text, 300)}")
    for item in document["refused"]:
        console.say(f"  refused: {console.safe(item['where'])}: {console.safe(item['why'], 400)}")


def _tokens(tokens: Wire) -> str:
    text = ", ".join(f"{fmt.count(tokens[name])} {name.replace('_', ' ')}" for name in _BUCKETS)
    unknown = tokens.get("unreported_replies", 0)
    return f"{text}; {fmt.plural(unknown, 'reply', 'replies')} without figures" if unknown else text
