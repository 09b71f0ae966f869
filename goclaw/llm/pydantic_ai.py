"""Every provider without a wire of its own, through pydantic-ai's `direct` requests: the extra `providers`.

The library takes seconds and some 80 MB to import. That happens in a thread, when such a model is first asked.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import Image
from goclaw.common.net import check_reachable
from goclaw.errors import ConfigError, ModelErrorKind
from goclaw.llm.base import ModelEvent, ModelPorts, Provider, Request
from goclaw.llm.data import KnownModel
from goclaw.llm.failures import fail, flag_errors
from goclaw.llm.http_streams import promptly
from goclaw.llm.media import AcceptedMedia, again_without_media
from goclaw.llm.open import unknown

if TYPE_CHECKING:
    from goclaw.llm.pydantic_ai_bridge import Bridge

INSTALL = "pip install 'goclaw[providers]'"


class PydanticAIModel(KnownModel):
    """A `ChatModel` on whatever pydantic-ai infers from `provider:name`."""

    def __init__(self, spec: str, settings: ProviderSettings, options: ModelOptions, ports: ModelPorts) -> None:
        super().__init__(spec, options, ports)
        self._settings = settings
        self._media = AcceptedMedia(lambda: self.sees_images, reads=options.documents)
        self._bridge: Bridge | None = None
        self._loading = asyncio.Lock()

    @property
    def sees_images(self) -> bool:
        return super().sees_images and not self._media.blind

    def takes(self, image: Image) -> bool:
        return self._media.takes(image)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask. Raises ModelError while iterating; see `base.ChatModel`.

        Raises:
            ConfigError: pydantic-ai does not know the provider, or it lacks a key; only then can that be known.
        """
        return aclosing(flag_errors(again_without_media(self._events, request, self._media)))

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        async with self._loading:
            if self._bridge is None:
                self._bridge = await asyncio.to_thread(self._load)
        limit = request.max_output or self.facts.max_output
        # Its events are no bytes: while a model thinks unseen there are none, however many bytes come.
        silence = self._ports.first_byte
        async with (
            aclosing(self._bridge.events(request, limit, self._options.thinking)) as events,
            aclosing(promptly(events, silence, silence)) as prompt,
        ):
            try:
                async for event in prompt:
                    yield event
            except TimeoutError as error:
                raise fail(ModelErrorKind.TIMEOUT, self.spec) from error

    def _load(self) -> "Bridge":
        from goclaw.llm.pydantic_ai_bridge import Bridge

        return Bridge(self.spec, self._settings, self._ports.load_image, self._media)


def open_pydantic_ai(
    spec: str, settings: ProviderSettings, options: ModelOptions, ports: ModelPorts
) -> PydanticAIModel:
    """Return the model for any `provider:name` that pydantic-ai knows.

    Raises:
        ConfigError: the extra is not installed.
    """
    provider = spec.partition(":")[0]
    if find_spec("pydantic_ai") is None:
        raise ConfigError(f"{spec}: {unknown(provider)} For more providers: {INSTALL}")
    check_reachable((settings.base_url and urlsplit(settings.base_url).hostname) or provider)
    return PydanticAIModel(spec, settings, options, ports)


PROVIDER = Provider("pydantic-ai", open_pydantic_ai)
