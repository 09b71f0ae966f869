"""`goclaw webhook list|test`: the actions of the configured webhooks, and a correctly signed call of one."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Annotated

import aiohttp
import orjson
import typer
from multidict import CIMultiDict

from goclaw.common.config.keys import what_helps
from goclaw.common.config.listening import EVERYWHERE, in_url
from goclaw.common.config.schema import Config
from goclaw.common.config.state import running_pid
from goclaw.common.config.webhooks import HOOKS, IncomingWebhook
from goclaw.common.core.clock import RealClock
from goclaw.common.core.files import read_bytes
from goclaw.common.core.redact import printable
from goclaw.errors import ConfigError, StateError
from goclaw.gateway.servers.webhooks.credentials import GITHUB_ID, IDEMPOTENCY_KEY, sign
from goclaw.gateway.servers.webhooks.receiving import shown_headers, template_of
from goclaw.gateway.servers.webhooks.template import TemplateFault
from goclaw.program.cli.base import FAILED, print_message, show
from goclaw.program.cli.options import command_group, load

SECONDS = 30.0
"""Time for the daemon's answer."""
MAX_BODY = 1_048_576

app = command_group("List the configured webhooks, or test one.")


@app.command("list")
def list_(context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print the configured webhooks: path, credential, what they make, for whom; never their secrets."""
    config = load(context).config
    if as_json:
        found = [_facts(name, hook) for name, hook in config.webhooks.items()]
        show(json.dumps(found, ensure_ascii=False, indent=2))
        return
    if not config.webhooks:
        print_message("no webhook is configured (`webhooks`, docs/webhooks.md)")
    for name, hook in config.webhooks.items():
        facts = _facts(name, hook)
        show(f"{name}  {facts['path']}  {facts['credential']}  {facts['kind']}  as {hook.user}  to {facts['to']}")


@app.command("test")
def try_out(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The webhook's name in the configuration.")],
    body: Annotated[Path, typer.Argument(help="A file with the JSON that the service would send.")],
    header: Annotated[
        list[str] | None, typer.Option(help="A header of the call, like `X-GitHub-Event: issues`; may be repeated.")
    ] = None,
) -> None:
    """Print what the template makes of a body, and call the running daemon with it, signed as the service would."""
    config = load(context).config
    if name not in config.webhooks:
        raise ConfigError(f"there is no webhook {name}{what_helps(name, config.webhooks)} (`webhooks`)")
    raw, headers = read_bytes(body, str(body), MAX_BODY), CIMultiDict(map(_header, header or ()))
    hook = config.webhooks[name]
    _show_text(name, hook, raw, headers)
    if running_pid(config) is None:
        show("no daemon is running, so nothing was sent")
        return
    if config.http.port == 0:
        raise ConfigError("http.port is 0, so only the daemon knows its port; nothing was sent")
    if not asyncio.run(_call(config, name, raw, headers)):
        raise typer.Exit(FAILED)


def _facts(name: str, hook: IncomingWebhook) -> dict[str, str]:
    return {
        "name": name,
        "path": f"{HOOKS}{name}",
        "credential": f"hmac {hook.hmac}" if hook.hmac else "secret",
        "kind": "message" if hook.task is None else "task",
        "user": hook.user,
        "to": hook.to or hook.user,
    }


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip() or not line.isprintable():
        raise ConfigError(f"--header {printable(line)[:80]}: should be `Name: value`")
    return name.strip(), value.strip()


def _show_text(name: str, hook: IncomingWebhook, raw: bytes, headers: CIMultiDict[str]) -> None:
    """Print the text, and where it goes.

    Raises:
        ConfigError: the template is not valid.
        StateError: the file is no JSON, or the template does not fit it.
    """
    template = template_of(name, hook, RealClock())
    try:
        text, _ = template.render(orjson.loads(raw), shown_headers(hook, headers), f"webhook {name}")
    except orjson.JSONDecodeError as error:
        raise StateError(f"the body is not JSON: {error}") from None
    except TemplateFault as fault:
        raise StateError(f"the template does not fit this body: {fault}") from None
    facts = _facts(name, hook)
    show(f"{facts['kind']} for {facts['to']}, as {hook.user}:\n\n{printable(text)}\n" if text else "nothing to do")


async def _call(config: Config, name: str, raw: bytes, headers: CIMultiDict[str]) -> bool:
    """Call the daemon, and print its answer; return whether it took the call.

    Raises:
        StateError: it does not answer.
    """
    hook, host = config.webhooks[name], EVERYWHERE.get(config.http.host, config.http.host)
    url = f"http://{in_url(host)}:{config.http.port}{HOOKS}{name}"
    given = CIMultiDict({"Content-Type": "application/json"})
    # A new id each time, as a test that does nothing the second time is of little use.
    given[hook.id_header or (GITHUB_ID if hook.hmac == "github" else IDEMPOTENCY_KEY)] = str(uuid.uuid4())
    given.update(headers)
    given.update(sign(hook, raw, RealClock().now()))
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as http, http.post(url, data=raw, headers=given) as answer:
            text = printable((await answer.content.read(2_000)).decode(errors="replace"))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise StateError(f"the daemon does not answer at {url} ({type(error).__name__})") from None
    show(f"{answer.status} {text}".rstrip())
    return answer.ok
