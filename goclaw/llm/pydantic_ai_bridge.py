"""Between our messages, events and errors and pydantic-ai's. Imported by `pydantic_ai` only, late."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_ai import exceptions
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from goclaw.common.config.schema import ProviderSettings
from goclaw.common.core.messages import AssistantMessage, Image, Native, ToolCall, ToolResult, UserMessage
from goclaw.errors import ConfigError, ModelError, ModelErrorKind
from goclaw.llm.base import CallStarted, Finished, ModelEvent, Request, Stop, TextDelta, ThinkingDelta, Usage
from goclaw.llm.encoded import as_offered, results_first
from goclaw.llm.failures import fail, piece_of_text
from goclaw.llm.media import AcceptedMedia, caption
from goclaw.llm.open import unknown
from goclaw.llm.tool_calls import arguments_of, read_id, read_name, trimmed_schema

KINDS = ModelErrorKind
NATIVE_SCHEMA = 1
BY_CLASS = (
    (exceptions.ModelContextWindowExceededError, KINDS.OVERFLOW),
    (exceptions.ModelQuotaExceededError, KINDS.AUTH),
    (exceptions.ModelRateLimitError, KINDS.RATE),
    (exceptions.ModelUnavailableError, KINDS.OVERLOADED),
    (exceptions.ModelServerError, KINDS.SERVER),
    (exceptions.ModelTimeoutError, KINDS.TIMEOUT),
    (exceptions.ModelRequestTimeout, KINDS.TIMEOUT),
    (exceptions.ModelConnectionError, KINDS.NETWORK),
    (exceptions.ModelAuthenticationError, KINDS.AUTH),
    (exceptions.ModelNotFoundError, KINDS.NOT_FOUND),
    (exceptions.ModelRequestRejectedError, KINDS.REJECTED),
    (exceptions.ContentFilterError, KINDS.REFUSED),
)
"""The library's error classes; the first that fits decides."""
STOPS = {"stop": Stop.END, "length": Stop.LENGTH, "content_filter": Stop.REFUSAL, "tool_call": Stop.TOOLS}
URL_PARAMETERS = ("base_url", "api_base", "azure_endpoint")
"""Names of the parameter for a server's address in the library's providers."""


def _exists(provider: str) -> bool:
    """Whether the library has the provider, which may lack a key or a package."""
    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    except (ImportError, exceptions.UserError):
        return True
    return True


class Bridge:
    """One model of the library, with our types.

    Raises:
        ConfigError: the library does not know the provider, or needs a key or another package for it.
    """

    def __init__(
        self,
        spec: str,
        settings: ProviderSettings,
        load_image: Callable[[str], Awaitable[bytes]],
        media: AcceptedMedia,
    ) -> None:
        self._spec = spec
        self._media = media
        self._native_name = f"pydantic-ai/{spec.partition(':')[0]}"
        self._load_image = load_image
        try:
            self._model: Model = infer_model(spec, provider_factory=lambda name: make_provider(name, settings))
        except (exceptions.UserError, ImportError, ValueError, TypeError) as error:
            known = "" if _exists(spec.partition(":")[0]) else f" ({unknown(spec.partition(':')[0])})"
            raise ConfigError(f"{spec}: {str(error).partition(chr(10))[0]}{known}") from error
        client = getattr(self._model, "client", None)
        if client is not None and hasattr(client, "max_retries"):
            # Our chain repeats; both together would ask nine times.
            client.max_retries = 0

    async def events(self, request: Request, limit: int, thinking: str) -> AsyncGenerator[ModelEvent, None]:
        """Ask, and yield our events. Raises ModelError."""
        settings = ModelSettings(max_tokens=limit)
        if thinking in ("low", "medium", "high"):
            settings["thinking"] = thinking  # type: ignore[typeddict-item]  # one of three literals: checked above
        tools = [
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=trimmed_schema(tool.schema)
            )
            for tool in request.tools
        ]
        parameters = ModelRequestParameters(function_tools=tools)
        history = await self._history(request)
        begun = False
        with translate_errors(self._spec):
            # Entering the model makes its HTTP client end with the block; nothing else would close it.
            async with (
                self._model,
                model_request_stream(
                    self._model, history, model_settings=settings, model_request_parameters=parameters
                ) as stream,
            ):
                try:
                    async for event in stream:
                        begun = True
                        for ours in events_of(event):
                            yield ours
                except exceptions.ModelConnectionError as error:
                    raise fail(KINDS.TRUNCATED if begun else KINDS.NETWORK, self._spec) from error
                finished = self._finish(stream.get())
        yield finished

    async def _history(self, request: Request) -> list[ModelMessage]:
        history: list[ModelMessage] = []
        seen: list[UserPromptPart] = []

        def add(*parts: UserPromptPart | ToolReturnPart) -> None:
            """Add content by others than the model; it joins the last entry, unless that is an answer."""
            for part in parts:
                if history and isinstance(history[-1], ModelRequest):
                    history[-1].parts = [*history[-1].parts, part]
                else:
                    history.append(ModelRequest([part], instructions=request.system or None))

        for spoken in results_first(request.messages):
            message = as_offered(spoken, request.tools)
            if not isinstance(message, ToolResult):  # behind all results of the answer: they belong together
                add(*seen)
                seen = []
            if isinstance(message, AssistantMessage):
                history.append(self._response(message))
                continue
            if isinstance(message, UserMessage):
                add(UserPromptPart(await self._content(message)))
                continue
            outcome: Any = "failed" if message.is_error else "success"
            message, pictures = await self._media.load(message, self._load)
            add(ToolReturnPart(message.name, message.content, message.call_id, outcome=outcome))
            if message.images:
                shown = [pictures[image.blob] for image in message.images]
                seen.append(UserPromptPart([caption(message), *shown]))
        add(*seen)
        if request.reminder:
            add(UserPromptPart(request.reminder))
        return history

    async def _content(self, message: UserMessage) -> Any:
        """Return text alone as a string, with pictures and documents as a list."""
        message, found = await self._media.load(message, self._load)
        if not message.images:
            return message.text
        pictures = [found[image.blob] for image in message.images]
        return [message.text, *pictures] if message.text else pictures

    async def _load(self, image: Image) -> BinaryContent:
        return BinaryContent(await self._load_image(image.blob), media_type=image.mime)

    def _response(self, message: AssistantMessage) -> ModelResponse:
        native = message.native
        if native is not None and native.provider == self._native_name and native.schema == NATIVE_SCHEMA:
            [response] = ModelMessagesTypeAdapter.validate_python(native.content)
            if isinstance(response, ModelResponse):
                return response
        text = [TextPart(message.text)] if message.text else []
        return ModelResponse([*text, *(ToolCallPart(call.name, call.input, call.id) for call in message.calls)])

    def _finish(self, response: ModelResponse) -> Finished:
        if response.finish_reason in (None, "error") or response.state != "complete":
            raise fail(KINDS.TRUNCATED, self._spec, "the stream ended without a finish reason")
        calls = tuple(
            ToolCall(read_id(part.tool_call_id), read_name(part.tool_name), arguments_of(part.args))
            for part in response.parts
            if isinstance(part, ToolCallPart)
        )
        stop = STOPS.get(str(response.finish_reason), Stop.END)
        if calls and stop is Stop.END:
            stop = Stop.TOOLS
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        native = None
        if any(isinstance(part, ThinkingPart) or getattr(part, "provider_details", None) for part in response.parts):
            content = ModelMessagesTypeAdapter.dump_python([response], mode="json")
            native = Native(self._native_name, NATIVE_SCHEMA, content)
        counted = response.usage
        usage = Usage(
            counted.input_tokens,
            counted.output_tokens,
            counted.cache_read_tokens,
            counted.cache_write_tokens,
            int(counted.details.get("reasoning_tokens", 0)),
        )
        return Finished(AssistantMessage(text, calls, native), usage, stop, self._spec)


def make_provider(name: str, settings: ProviderSettings) -> Provider[Any]:
    """Return the library's provider, with the configured key and address; it reads its own variables itself."""
    kind = infer_provider_class(name)
    known = inspect.signature(kind).parameters
    given: dict[str, Any] = {}
    if settings.api_key is not None:
        given["api_key"] = settings.api_key.get_secret_value()
    if settings.base_url is not None:
        given[next((parameter for parameter in URL_PARAMETERS if parameter in known), "base_url")] = settings.base_url
    return kind(**given)


def events_of(event: ModelResponseStreamEvent) -> Iterator[ModelEvent]:
    """Yield our events for one of the library's; unknown kinds are ignored."""
    if isinstance(event, PartStartEvent):
        if isinstance(event.part, ToolCallPart):
            yield CallStarted(read_name(event.part.tool_name))
        elif isinstance(event.part, TextPart) and event.part.content:
            yield TextDelta(piece_of_text(event.part.content))
        elif isinstance(event.part, ThinkingPart) and event.part.content:
            yield ThinkingDelta(piece_of_text(event.part.content))
    elif isinstance(event, PartDeltaEvent):
        if isinstance(event.delta, TextPartDelta) and event.delta.content_delta:
            yield TextDelta(piece_of_text(event.delta.content_delta))
        elif isinstance(event.delta, ThinkingPartDelta) and event.delta.content_delta:
            yield ThinkingDelta(piece_of_text(event.delta.content_delta))


@contextmanager
def translate_errors(spec: str) -> Iterator[None]:
    """Turn the library's errors into `ModelError`."""
    try:
        yield
    except (exceptions.AgentRunError, exceptions.UserError) as error:
        raise translate(spec, error) from error
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        # JSON of a shape that the protocol does not have: the library reads an answer without checking it.
        raise fail(KINDS.TRUNCATED, spec, "unreadable data in the stream") from error


def translate(spec: str, error: Exception) -> ModelError:
    """Return the `ModelError` for one of the library's errors; an unknown one is an answer that broke off."""
    kind = next((kind for known, kind in BY_CLASS if isinstance(error, known)), KINDS.TRUNCATED)
    if isinstance(error, exceptions.UserError):
        kind = KINDS.REJECTED
    return fail(kind, spec, str(error), retry_after=getattr(error, "retry_after", None))
