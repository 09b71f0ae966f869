"""The engine of the templates. Loaded through the catalogue when the first template is checked, not at the start."""

import json

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from goclaw.tools.templates import Rendered, TemplateEngine


def _quote(value: object) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
_ENVIRONMENT.filters = {
    name: _ENVIRONMENT.filters[name] for name in ("join", "count", "truncate", "default", "lower", "upper", "first")
} | {"json": _json, "quote": _quote}


def _names(text: str) -> set[str]:
    try:
        parsed = _ENVIRONMENT.parse(text)
        used = meta.find_undeclared_variables(parsed)
    except TemplateError as error:
        raise ValueError(str(error)) from error
    if any(meta.find_referenced_templates(parsed)):
        raise ValueError("there is no other template to take in")
    return used


def _compile(text: str) -> Rendered:
    try:
        template: Template = _ENVIRONMENT.from_string(text)
    except TemplateError as error:
        raise ValueError(str(error)) from error

    def render(**values: object) -> str:
        try:
            return template.render(values)
        except (TemplateError, TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
            raise ValueError(f"template {text!r}: {error}") from error

    return render


ENGINE = TemplateEngine(_names, _compile)
