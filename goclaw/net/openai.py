"""The address and key of a server that speaks OpenAI's protocol, for requests other than chats."""

import os
from collections.abc import Mapping

from goclaw.config.schema import ProviderSettings
from goclaw.config.servers import KnownServer
from goclaw.errors import ConfigError
from goclaw.redact import remember


def place_of(
    setting: str, name: str, settings: ProviderSettings, known: Mapping[str, KnownServer]
) -> tuple[str, dict[str, str]]:
    """Base URL and headers for the provider `name` that the configuration's `setting` wants: `providers.<name>` of the
    configuration takes precedence over what is `known`. The variable's key goes to the server that it is for only.

    Raises:
        ConfigError: the address or the key is missing.
    """
    server = known.get(name)
    base_url = settings.base_url or (server.base_url if server else None)
    if base_url is None:
        raise ConfigError(
            f"{setting}: no server is known as {name}; set providers.{name}.base_url (http://host:port/v1), "
            f"or take one of {', '.join(sorted(known))}"
        )
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if key is None and server and server.key_variable and not settings.base_url:
        key = os.environ.get(server.key_variable)
        if not key:
            raise ConfigError(f"{setting}: no key; set {server.key_variable} or providers.{name}.api_key")
        remember(key)
    return base_url, {"authorization": f"Bearer {key}"} if key else {}
