"""The page of the API, made from its OpenAPI document. It loads nothing from elsewhere."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

STYLE: Final = (
    "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "td{vertical-align:top;padding:.2em 1em .2em 0;border-top:1px solid #ccc}"
)


def page_of(document: Mapping[str, Any]) -> str:
    """Return an HTML page.

    Args:
        document: the OpenAPI document.
    """
    title = escape(document["info"]["title"])
    parts = [
        "<!DOCTYPE html><html lang=en><meta charset=utf-8>",
        f"<title>{title}</title><style>{STYLE}</style><h1>{title}</h1>",
        f"<p>{escape(document['info'].get('description', ''))} ",
        "<a href=openapi.json>OpenAPI document</a></p>",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += [
                f"<h2><code>{method.upper()} {escape(path)}</code></h2>",
                f"<p>{escape(operation.get('summary', ''))}</p>",
                *_body(operation.get("requestBody", {}).get("content", {})),
            ]
    return "\n".join(parts)


def _body(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table for each form of a body."""
    for kind, form in content.items():
        schema = form["schema"]
        needed = schema.get("required", ())
        yield f"<h3>{escape(kind)}</h3><table>"
        for name, field in schema.get("properties", {}).items():
            meaning = escape(field.get("description", ""))
            mark = " (required)" if name in needed else ""
            yield f"<tr><td><code>{escape(name)}</code>{mark}<td>{meaning}"
        yield "</table>"
