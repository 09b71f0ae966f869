"""The step of `goclaw setup` for a server with OpenAI's protocol at an address that the person gives.

The address and the key are tried with the server's list of models. A server on the port of a known kind gets the
provider of that kind, any other one is `local`: the lines in docs/models.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from pydantic import SecretStr

from goclaw.common.config.schema import Config, ProviderSettings
from goclaw.common.config.servers import SERVERS, full_address, provider_settings
from goclaw.common.net.local_servers import PLACES, LocalServer
from goclaw.errors import ConfigError, GoclawError, ModelError, ModelErrorKind
from goclaw.llm.probes import model_names
from goclaw.program.cli.setup_dialogue import ModelChoice, Scene, ask_secret

OFFERED = ("lmstudio", "llamacpp", "vllm")
"""The providers whose addresses are offered."""
ANY = "local"
"""The provider of a server of no known kind."""
MOST_LISTED = 30
"""Models that are listed with a number; any other can be typed."""
BEGINNINGS = ("http://", "https://")


async def choose_served_model(scene: Scene, running: Sequence[LocalServer], typed: str = "") -> ModelChoice | None:
    """Return a model that a server at an address has, not tried out yet; None when the person gives up.

    Args:
        scene: the dependencies.
        running: the servers that answered at their usual addresses.
        typed: the address, where the person gave one already.
    """
    offered = {} if typed else _offer(scene, running)
    while typed or (typed := await scene.dialogue.ask("   Number or address [Enter: another model]:")):
        try:
            place = find_place(offered.get(typed, typed), scene.loaded.config)
            if choice := await _choose_name(scene, place):
                return choice
        except GoclawError as error:
            scene.dialogue.print(f"   ✗ {error}")
        typed = ""
    return None


def find_place(typed: str, config: Config) -> ModelChoice:
    """Return the provider and the address for a server, as a choice whose model has no name yet.

    The address is empty where the provider is looked for there anyway.

    Raises:
        ConfigError: it is no address.
    """
    url = typed if typed.startswith(BEGINNINGS) else f"http://{typed}"
    try:
        settings = ProviderSettings.model_validate({"base_url": url})
        port = urlsplit(url).port
        if not urlsplit(url).hostname or any(sign.isspace() for sign in url):
            raise ValueError(url)
    except ValueError:
        raise ConfigError(f"{typed}: is no address; write it as in http://127.0.0.1:1234/v1") from None
    known = (name for name in PLACES if urlsplit(SERVERS[name].base_url).port == port)
    provider = next(known, ANY)
    server = SERVERS[provider]
    address = full_address(settings.base_url or url, server)
    now = provider_settings(config.providers, provider).base_url or server.base_url
    return ModelChoice(f"{provider}:", base_url="" if address == full_address(now, server) else address)


def with_choice(config: Config, choice: ModelChoice) -> Config:
    """Return the configuration as it will be with the choice's key and address; another server gets no old key."""
    news: dict[str, object] = {"api_key": SecretStr(choice.key)} if choice.key else {}
    if choice.base_url:
        news = {"api_key": None, **news, "base_url": choice.base_url}
    if not news:
        return config
    settings = provider_settings(config.providers, choice.provider).model_copy(update=news)
    return config.model_copy(update={"providers": {**config.providers, choice.provider: settings}})


def _offer(scene: Scene, running: Sequence[LocalServer]) -> dict[str, str]:
    """Print the usual addresses, those that answer first; returns them by their number."""
    places = {each.base_url: f"{each.title} answers" for each in running}
    for name in OFFERED:
        places.setdefault(SERVERS[name].base_url, f"usual for {PLACES[name]}")
    for number, (url, words) in enumerate(places.items(), 1):
        scene.dialogue.print(f"   {number}  {url} ({words})")
    return {str(number): url for number, url in enumerate(places, 1)}


async def _choose_name(scene: Scene, place: ModelChoice) -> ModelChoice | None:
    """Return a model of the server, by its list; None when the person gives up.

    Raises:
        GoclawError: the server does not answer, or with something else than a list.
    """
    choice = replace(place, key=await ask_secret(scene.dialogue, "   Its key (hidden) [Enter: none]:"))
    while (names := await _list_names(scene, choice)) is None:
        key = await ask_secret(scene.dialogue, "   Another key (hidden) [Enter: another address]:")
        if not key:
            return None
        choice = replace(choice, key=key)
    for number, name in enumerate(names[:MOST_LISTED], 1):
        scene.dialogue.print(f"   {number}  {name}")
    if len(names) > MOST_LISTED:
        scene.dialogue.print(f"   … and {len(names) - MOST_LISTED} more")
    numbered = {str(number): name for number, name in enumerate(names, 1)}
    typed = await scene.dialogue.ask("   Number or name of the model [Enter: another address]:")
    return replace(choice, spec=f"{choice.spec}{numbered.get(typed, typed)}") if typed else None


async def _list_names(scene: Scene, choice: ModelChoice) -> Sequence[str] | None:
    """Return the models of the server; None: it refuses the key, which is said.

    Raises:
        GoclawError: as above.
    """
    try:
        return await model_names(choice.provider, with_choice(scene.loaded.config, choice), scene.http, scene.clock)
    except ModelError as error:
        if error.kind is ModelErrorKind.NOT_FOUND:
            raise ConfigError("there is no list of models at this address; does it end in /v1?") from None
        if error.kind is not ModelErrorKind.AUTH:
            raise
        scene.dialogue.print(f"   ✗ {error}")
        return None
