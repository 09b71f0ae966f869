"""Repeats a request without a field that its server refuses.

The optional fields are the output limit, `stream_options`, those that ask for thinking, and the tools.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import Request
from goclaw.llm.served import ServedModel
from goclaw.llm.server_words import output_limit_in, output_limit_refused, refused_field

LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
NEEDED_FIELDS = frozenset({"model", "stream"})
FIELD_REFUSALS = frozenset({ModelErrorKind.REJECTED, ModelErrorKind.NOT_FOUND, ModelErrorKind.SERVER})
"""Kinds of errors with which servers refuse a field: 400 and 422, 404 (OpenRouter: tools), 500 (llama.cpp: tools)."""
TOOLS_REFUSED = re.compile(
    r"not support.{0,40}\btool|\btools?\b.{0,60}(not supported|unsupported|not enabled|requires?\b)|support tool use",
    re.IGNORECASE,
)
"""The model, or its server as it was started, takes no tools."""


def no_tools(request: Request) -> Request:
    """Return the request for a model that cannot call tools."""
    return replace(request, tools=(), deferred=()) if request.tools or request.deferred else request


def amend(known: ServedModel, error: ModelError, head: Mapping[str, Any], request: Request) -> ServedModel | None:
    """Return the facts to try instead after a server refused a request; None: its refusal says nothing of the kind.

    Args:
        known: the facts that the request was made with.
        error: the refusal.
        head: the fields that were sent with the conversation.
        request: the conversation.
    """
    if error.kind not in FIELD_REFUSALS or error.status is None:
        return None
    if request.tools and known.tools is not False and TOOLS_REFUSED.search(error.body):
        return replace(known, tools=False)
    if error.kind is not ModelErrorKind.REJECTED:
        return None
    limit_field = next((name for name in LIMIT_FIELDS if name in head), "")
    if limit_field and output_limit_refused(error.body):
        if known.output:
            return None
        most = output_limit_in(error.body, head[limit_field])
        return replace(known, output=most) if most else replace(known, left_out=(*known.left_out, limit_field))
    sent = [name for name in head if name not in NEEDED_FIELDS]
    field_refused = refused_field(error.body, sent)
    return replace(known, left_out=(*known.left_out, field_refused)) if field_refused else None
