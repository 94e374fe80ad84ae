"""Templates: escaped whatever their name, hidden characters named, an absence never empty."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from app import render

HOSTILE = "<script>alert(1)</script>\u202egpj.exe\x1b[31m"


@pytest.mark.parametrize("name", ["a.html", "a.txt", "a", "a.svg", "a.md"])
def test_every_template_is_escaped_whatever_its_name(name: str) -> None:
    environment = render.environment().overlay()
    template = environment.from_string("{{ x }}")
    template.name = name
    assert environment.is_async is False and environment.autoescape is True
    shown = template.render(x=HOSTILE)
    assert "<" not in shown and "&lt;script&gt;" in shown


def test_hidden_characters_are_named_and_absences_are_errors() -> None:
    environment = render.environment()
    shown = environment.from_string("{{ x }} {{ x|upper }} {{ x ~ 'y' }}").render(x=HOSTILE)
    assert "\u202e" not in shown and "\x1b" not in shown
    for template in ("{{ x }}", "{{ y }}", "{{ x.y }}", "{% if y %}z{% endif %}"):
        with pytest.raises((TypeError, UndefinedError)):
            environment.from_string(template).render(x=None)


def test_data_for_a_script_ends_no_script() -> None:
    shown = str(render.json_data({"x": "</script><!--", "y": "a&b"}))
    assert "<" not in shown and "&" not in shown and ">" not in shown
