"""``/docs``: the requests of programs as a page, out of their schema, whose descriptions are Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from archive.page.markup import UNBROKEN, table, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARKDOWN = MarkdownIt("commonmark", {"html": False})
KINDS = {"boolean": "true or false", "integer": "a number", "string": "text", "array": "a list"}
NOTHING = ("", None)
"""Defaults that need no words."""


def described(schema: Mapping[str, Any]) -> str:
    """A description of all requests as HTML."""
    operations = [
        (method, path, about)
        for path, methods in schema["paths"].items()
        for method, about in methods.items()
    ]
    links = "".join(
        f'<li><a href="#{_key(method, path)}">{_name(method, path)}</a> {_inline(about["summary"])}</li>'
        for method, path, about in operations
    )
    schemes = schema["components"]["securitySchemes"]
    return "".join(
        [
            _prose(schema["info"]["description"]),
            '<p><a href="/openapi.json">openapi.json</a> has all of it, for programs.</p>',
            f"<ul>{links}</ul>",
            *(
                f'<div class="operation" id="{_key(method, path)}"><h2>{_name(method, path)}</h2>'
                f"{''.join(_operation(method, path, about, schemes))}</div>"
                for method, path, about in operations
            ),
        ]
    )


def _key(method: str, path: str) -> str:
    """How a link leads to a request on the page."""
    return "-".join([method, *re.findall(r"\w+", path)])


def _name(method: str, path: str) -> str:
    return f"<code>{method.upper()} {text_of(path)}</code>"


def _operation(method: str, path: str, about: Mapping[str, Any], schemes: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a request's description."""
    yield _prose(f"{about['summary']}.\n\n{about['description']}")
    if method == "get" and "{" not in path:
        yield f'<p><a href="{text_of(path)}">What it says now</a></p>'
    parameters = [*map(_parameter, about.get("parameters", []))]
    for name in (name for need in about.get("security", []) for name in need):
        words = _inline(schemes[name]["description"])
        parameters.append(("<code>Authorization</code>", "header", "<code>Bearer TOKEN</code>", words))
    if parameters:
        yield "<h3>Parameters</h3>"
        yield table(("Parameter", "In", "Values", "What it says"), parameters, (UNBROKEN, UNBROKEN, "", ""))
    for media_type, content in about.get("requestBody", {}).get("content", {}).items():
        yield f"<h3>Body, as <code>{text_of(media_type)}</code></h3>"
        for form in content["schema"].get("anyOf", [content["schema"]]):
            yield from _body(form)
    yield "<h3>Answers</h3>"
    yield from _answers(about["responses"])


def _parameter(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of a parameter."""
    name = f"<code>{text_of(facts['name'])}</code>"
    return name, facts["in"], _values(facts["schema"]), _inline(facts["description"])


def _body(form: Mapping[str, Any]) -> Iterator[str]:
    """What a body is, and its fields if it has some."""
    yield _prose(form["description"])
    fields = [
        (
            f"<code>{text_of(name)}</code>",
            _values(facts) + ("" if name in form["required"] else "; may be left out"),
            _inline(facts["description"]),
        )
        for name, facts in form.get("properties", {}).items()
    ]
    if fields:
        yield table(("Field", "Values", "What it says"), fields, (UNBROKEN, "", ""))


def _answers(answers: Mapping[str, Any]) -> Iterator[str]:
    """When a request is answered how, and what the headers say."""
    rows = [
        (
            status,
            _inline(answer["description"]),
            ", ".join(f"<code>{text_of(form)}</code>" for form in answer.get("content", {})),
        )
        for status, answer in sorted(answers.items())
    ]
    yield table(("Status", "When", "Form"), rows, (UNBROKEN, "", ""))
    headers = [
        (f"<code>{text_of(name)}</code>", _inline(facts["description"]))
        for answer in answers.values()
        for name, facts in answer.get("headers", {}).items()
    ]
    if headers:
        yield table(("Header of the answer", "What it says"), headers, (UNBROKEN, ""))


def _values(schema: Mapping[str, Any]) -> str:
    """Which values a parameter may have, in words."""
    facts = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    words = KINDS[facts["type"]]
    least, most = facts.get("minimum"), facts.get("maximum")
    if least is not None and most is not None:
        words += f" from {least:,} to {most:,}"
    elif least is not None:
        words += f" of {least:,} or more"
    if "maxLength" in facts:
        words += f" of at most {facts['maxLength']:,} characters"
    if "maxItems" in facts:
        words += f" of at most {facts['maxItems']:,} numbers"
    default = schema.get("default")
    if isinstance(default, bool):
        default = str(default).lower()
    return words if default in NOTHING else f"{words}; by default {default}"


def _prose(text: str) -> str:
    return f'<div class="prose">{MARKDOWN.render(text)}</div>'


def _inline(text: str) -> str:
    """Markdown of one line."""
    line: str = MARKDOWN.renderInline(text)
    return line
