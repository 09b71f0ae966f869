"""The keys of `webhooks` and `notify`: services that call the daemon, and URLs that it sends results and alerts to.

The handling of a call is in `goclaw.gateway.servers.webhooks`, for people in docs/webhooks.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from goclaw.common.config.keys import Loc, what_helps
from goclaw.common.config.section import Section
from goclaw.common.config.values import (
    Duration,
    ModelName,
    OneOrMore,
    Secret,
    Selection,
    is_web_address,
    require,
    require_that,
)
from goclaw.common.core.events import Address

HOOKS = "/hooks/"
"""Begins the path of every webhook."""
NOTIFY = "notify"
"""Name of the channel that posts to the URLs of `notify`."""
MAX_TEMPLATE = 4_000
"""Characters of a template: what it does is bounded by its length."""
SHORTEST_SECRET = 16
_OPTIONS = ("session", "agent", "model", "tools", "budget", "seconds", "ask")
"""Keys that are about the turn of a task."""
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-goclaw-token"})


def _is_address_without_user(secret: SecretStr) -> bool:
    text = secret.get_secret_value()
    return is_web_address(text) and "@" not in urlsplit(text).netloc


EndpointName = Annotated[
    str,
    require(
        r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}",
        "should be a short name such as `github`: letters, digits, `_` and `-`, at most 64",
    ),
]
CallerSecret = Annotated[
    Secret,
    require(
        rf".{{{SHORTEST_SECRET},}}",
        f"should have at least {SHORTEST_SECRET} characters, as `openssl rand -hex 32` makes them",
    ),
]
HeaderName = Annotated[
    str,
    require(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", "should be the name of a header, such as X-Request-Id"),
    require_that(lambda name: name.lower() not in _CREDENTIALS, "should not be a header that carries a secret"),
]
HeaderNames = Annotated[tuple[HeaderName, ...], OneOrMore]
UserKey = Annotated[
    str,
    require(r"[a-z][a-z0-9]*:[^\s:]{1,100}", "should be a key of users.json, such as telegram:123456789 or tui:ann"),
]
ResultTarget = Annotated[
    str,
    require(
        r"telegram:-?[1-9][0-9]{0,19}(:[1-9][0-9]{0,19})?|notify:[A-Za-z0-9][A-Za-z0-9_-]{0,63}",
        "should be `telegram:<chat id>`, `telegram:<chat id>:<topic>` or `notify:<name>`",
    ),
]
"""Where results go: a chat, or a name of `notify`."""
WebhookTemplate = Annotated[
    str,
    require_that(
        lambda text: text.strip() and len(text) <= MAX_TEMPLATE,
        f"should be a text of at most {MAX_TEMPLATE:,} characters",
    ),
]
SecretUrl = Annotated[
    Secret, require_that(_is_address_without_user, "should be a URL like https://host/path, without a user name")
]
"""A URL that often holds a token, so it is kept out of logs."""


class UnattendedSettings(Section):
    """A message or a task that no person waits for: where its result goes, and how a task's turn differs."""

    to: ResultTarget | None = Field(
        None,
        description="The destination of the message or the task's answer: `telegram:<chat id>`, `telegram:<chat "
        "id>:<topic>` or `notify:<name>`; not set: the user's own chat or session.",
    )
    session: Annotated[str, AfterValidator(lambda given: given or "fresh")] = Field(
        "fresh",
        max_length=200,
        description="The task's session: `fresh` or empty (a new one each time), `same` (the user's), or a session's "
        "key.",
    )
    agent: str = Field("", description="The agent of the task; empty: the one that answers the user.")
    model: ModelName | None = Field(None, description="The task's model; not set: the agent's.")
    tools: Selection | None = Field(None, description="The only tools for the task, of those the user may use.")
    ask: bool = Field(
        False, description="Whether a call that needs approval asks in the chat; otherwise it is refused."
    )
    budget: float | None = Field(None, gt=0, description="Maximum cost of a task in US dollars.")


class IncomingWebhook(UnattendedSettings):
    """A service that calls `/hooks/<name>` with JSON (docs/webhooks.md)."""

    secret: CallerSecret = Field(
        description="The secret of the caller: `Authorization: Bearer SECRET`, `X-GoClaw-Token: SECRET`, or a "
        "signature (`hmac`).",
        examples=["at-least-16-characters"],
    )
    hmac: Literal["github", "stripe"] | None = Field(
        None,
        description="How the caller signs the body instead of sending the secret: `X-Hub-Signature-256`, or "
        "`Stripe-Signature`, which is valid for five minutes.",
    )
    user: UserKey = Field(
        description="The user in users.json with whose rights it acts.", examples=["telegram:123456789"]
    )
    message: WebhookTemplate | None = Field(
        None, description="Template of a message that is sent word for word, without a model; this or `task`."
    )
    task: WebhookTemplate | None = Field(
        None, description="Template of a task for the agent.", examples=["Sum up in one line: {{ body.issue.title }}"]
    )
    headers: HeaderNames = Field((), description="More headers that templates may use, as `headers.x_request_id`.")
    id_header: HeaderName | None = Field(
        None,
        description="The header with the id of a call, so that a repetition does nothing; not set: X-GitHub-Delivery, "
        "Idempotency-Key, Stripe's event id.",
    )
    idempotent_by_hash: bool = Field(
        False, description="Whether an identical body counts as a repetition, whatever its headers say."
    )
    per_minute: int = Field(60, ge=1, le=10_000, description="Maximum calls from one address per minute.")
    seconds: Duration | None = Field(None, description="Time limit of a task.")

    @property
    def address(self) -> Address:
        """Return where the message or the answer goes, as far as it is no terminal."""
        channel, chat, *thread = (self.to or self.user).split(":")
        return Address(channel, chat, thread[0] if thread else None)


class NotifyTarget(Section):
    """A URL that is told of results and alerts, by a POST of JSON (docs/webhooks.md)."""

    url: SecretUrl = Field(
        description="The URL to post to; kept secret.", examples=["https://hooks.example.org/goclaw"]
    )
    secret: Secret | None = Field(None, description="The secret sent in the header `secret_header`.")
    secret_header: Annotated[str, Field(pattern="^[Xx]-[A-Za-z0-9-]{1,60}$")] = Field(
        "X-GoClaw-Token", description="The header for `secret`; it begins with `X-`."
    )
    private: bool = Field(
        False, description="Whether this exact host and port may be on this machine or in a private network."
    )


Webhooks = dict[EndpointName, IncomingWebhook]
NotifyTargets = dict[EndpointName, NotifyTarget]


def contradictions(
    webhooks: Mapping[str, IncomingWebhook], targets: Mapping[str, NotifyTarget], alerted: Sequence[str]
) -> Iterator[tuple[Loc, str]]:
    """Yield contradictions between valid values: the place, and the fault. `alerted`: `alerts.notify`."""
    for name, hook in webhooks.items():
        loc: Loc = ("webhooks", name)
        if (hook.message is None) == (hook.task is None):
            yield loc, "should have either `message` or `task`"
        if hook.message is not None and (odd := [key for key in _OPTIONS if key in hook.model_fields_set]):
            yield (*loc, odd[0]), "is only for a task, but this is a message; remove it"
        yield from (((*loc, *inner), why) for inner, why in of_target(hook.to, targets, ask=hook.ask))
    for index, name in enumerate(alerted):
        if name not in targets:
            yield ("alerts", "notify", index), f"unknown target `{name}` (notify){what_helps(name, targets)}"


def of_target(to: str | None, targets: Mapping[str, NotifyTarget], *, ask: bool) -> Iterator[tuple[Loc, str]]:
    """Yield contradictions to `to` (a `ResultTarget`) in keys next to it: the key, and the fault."""
    if to is None or not to.startswith(f"{NOTIFY}:"):
        return
    name = to.partition(":")[2]
    if name not in targets:
        yield ("to",), f"unknown target `{name}` (notify){what_helps(name, targets)}"
    if ask:
        yield ("ask",), f"needs a chat where a person answers; `to` is `{to}`"
