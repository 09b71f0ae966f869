"""The requests that programs send, and the question to the agent that each of them makes.

Fields that only steer a model (`temperature`, `max_tokens`, `seed`) are ignored: the configuration chooses them. A
field that would lose its meaning is refused by its name.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goclaw.common.core.records import record
from goclaw.durable.store.blobs import image_type
from goclaw.gateway.servers.openai.errors import ApiError, bad_request

MAX_CHARACTERS = 1_000_000
"""Characters of a conversation: no model reads more."""
MAX_MESSAGES = 2_000
MAX_PICTURES = 20
_NO_TOOLS = (
    "the agent uses GoClaw's own tools and cannot call those of a client; omit `{}` (in Open WebUI: Admin Settings, "
    "Models, this model, Capabilities, Builtin Tools off)"
)

RequestT = TypeVar("RequestT", bound="_Request")


@record
class Said:
    """One message."""

    role: Literal["user", "assistant"]
    text: str
    pictures: tuple[bytes, ...] = ()


@record
class Asked:
    """The question to the agent."""

    earlier: tuple[Said, ...]
    """The conversation before it, oldest first."""
    message: Said


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Url(_Loose):
    url: str


class Part(_Loose):
    """A part of a message's content."""

    type: str
    text: str | None = None
    image_url: _Url | str | None = None


class ChatMessage(_Loose):
    """A message of either protocol; an item of `input` of another type has no role."""

    type: str = "message"
    role: str = ""
    content: str | list[Part] | None = None
    tool_calls: list[Any] | None = None


class _Id(_Loose):
    id: str


class _Request(_Loose):
    model: str = Field(min_length=1, max_length=200)
    stream: bool | None = None
    tools: list[Any] | None = None
    top_logprobs: int | None = None

    def refuse(self) -> None:
        """Raise ApiError for a field that would lose its meaning."""
        if self.tools:
            raise bad_request(_NO_TOOLS.format("tools"), "tools", "unsupported_parameter")
        if self.top_logprobs:
            raise _refusal_of("top_logprobs", "there are no log probabilities")


class StreamOptions(_Loose):
    """Options of a stream."""

    include_usage: bool = False


class _Format(_Loose):
    type: str = "text"


class ChatRequest(_Request):
    """The body of POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream_options: StreamOptions | None = None
    functions: list[Any] | None = None
    n: int | None = None
    logprobs: bool | None = None
    response_format: _Format | None = None
    modalities: list[str] | None = None

    def refuse(self) -> None:
        """Raise ApiError for a field that would lose its meaning."""
        super().refuse()
        if self.functions:
            raise bad_request(_NO_TOOLS.format("functions"), "functions", "unsupported_parameter")
        if self.n not in (None, 1):
            raise _refusal_of("n", "a request gets exactly one answer")
        if self.logprobs:
            raise _refusal_of("logprobs", "there are no log probabilities")
        if self.response_format and self.response_format.type != "text":
            raise _refusal_of("response_format", "the answer is always text; describe the form you want in words")
        if set(self.modalities or ()) - {"text"}:
            raise _refusal_of("modalities", "the answer is always text")

    def extract_question(self) -> Asked:
        """Return the question. Raises ApiError where the messages make none."""
        return _parse_messages(self.messages, "messages", "")


class _Text(_Loose):
    format: _Format | None = None


class ResponsesRequest(_Request):
    """The body of POST /v1/responses."""

    input: str | list[ChatMessage] = Field(max_length=MAX_CHARACTERS)
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: _Id | str | None = None
    background: bool | None = None
    prompt: dict[str, Any] | None = None
    text: _Text | None = None

    def refuse(self) -> None:
        """Raise ApiError for a field that would lose its meaning."""
        super().refuse()
        if self.background:
            raise _refusal_of("background", "every request waits for its answer")
        if self.prompt:
            raise _refusal_of("prompt", "there are no stored prompts")
        if self.text and self.text.format and self.text.format.type != "text":
            raise _refusal_of("text.format", "the answer is always text; describe the form you want in words")
        if self.previous_response_id and self.conversation:
            raise bad_request("send either `conversation` or `previous_response_id`, not both", "previous_response_id")

    @property
    def conversation_id(self) -> str:
        """The session's key in `conversation`; empty: none."""
        return self.conversation.id if isinstance(self.conversation, _Id) else self.conversation or ""

    def extract_question(self) -> Asked:
        """Return the question. Raises ApiError where the items make none."""
        items = [ChatMessage(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        if len(items) > MAX_MESSAGES:
            raise bad_request(f"there are more than {MAX_MESSAGES:,} items", "input")
        return _parse_messages([each for each in items if each.type != "reasoning"], "input", self.instructions or "")


def parse(kind: type[RequestT], raw: bytes) -> RequestT:
    """Return the request in a body. Takes long for a large one: not in the event loop.

    Raises:
        ApiError: it is no such request, or has a field that would lose its meaning.
    """
    try:
        request = kind.model_validate(orjson.loads(raw))
    except orjson.JSONDecodeError:
        raise bad_request("the body is not valid JSON, or nested too deeply") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        param = _place(first["loc"])
        raise bad_request(f"{param or 'the body'}: {first['msg']}", param or None) from None
    request.refuse()
    return request


def _place(location: Sequence[str | int]) -> str:
    """Return a place as OpenAI's API names it: `messages[0].content`."""
    # What pydantic adds for the kinds of a union is no part of the body.
    named = [each for each in location if isinstance(each, int) or each.replace("_", "").isalpha()]
    kinds = ("str", "Part", "Url", "_Url", "_Id", "ChatMessage")
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in named if each not in kinds).strip(
        "."
    )


def _refusal_of(param: str, why: str) -> ApiError:
    return bad_request(f"`{param}` is not supported: {why}", param, "unsupported_parameter")


def _parse_messages(messages: Sequence[ChatMessage], name: str, instructions: str) -> Asked:
    said = _collect_messages(messages, name, instructions)
    if not said or said[-1].role != "user" or not (said[-1].text.strip() or said[-1].pictures):
        raise bad_request("the last message should be a user message with text", name)
    if sum(len(each.text) for each in said) > MAX_CHARACTERS:
        raise bad_request(f"there are more than {MAX_CHARACTERS:,} characters", name, "context_length_exceeded")
    if sum(len(each.pictures) for each in said) > MAX_PICTURES:
        raise bad_request(f"there are more than {MAX_PICTURES} pictures", name)
    return Asked(tuple(said[:-1]), said[-1])


def _collect_messages(messages: Sequence[ChatMessage], name: str, instructions: str) -> list[Said]:
    """Return the messages; instructions stand before the next message of the user, who is answerable for them."""
    said: list[Said] = []
    waiting = [instructions] if instructions.strip() else []
    for number, message in enumerate(messages):
        place = f"{name}[{number}]"
        if message.type != "message":
            raise bad_request(f"items of type `{message.type[:40]}` are not supported; send messages", f"{place}.type")
        if message.tool_calls:
            raise bad_request(_NO_TOOLS.format("tool_calls"), f"{place}.tool_calls")
        parts = [message.content] if isinstance(message.content, str) else message.content or []
        text = "\n".join(_texts(parts, f"{place}.content"))
        match message.role:
            case "system" | "developer":
                waiting += [text] if text.strip() else []
            case "user":
                pictures = tuple(_pictures(parts, f"{place}.content"))
                said.append(Said("user", "\n\n".join([*waiting, text]), pictures))
                waiting = []
            case "assistant":
                if text.strip():
                    said.append(Said("assistant", text))
            case "tool" | "function":
                raise bad_request(_NO_TOOLS.format(f"role: {message.role}"), f"{place}.role")
            case _:
                raise bad_request("`role` should be one of system, developer, user, assistant", f"{place}.role")
    return _with_last_instructions(said, "\n\n".join(waiting))


def _with_last_instructions(said: list[Said], instructions: str) -> list[Said]:
    """Add instructions that no message follows to the last one if it is the user's.

    Else they are a message of their own: some programs send nothing but a system message.
    """
    if not instructions:
        return said
    if said and said[-1].role == "user":
        return [*said[:-1], replace(said[-1], text=f"{said[-1].text}\n\n{instructions}")]
    return [*said, Said("user", instructions)]


def _texts(parts: Sequence[Part | str], place: str) -> Iterator[str]:
    for number, part in enumerate(parts):
        if isinstance(part, str):
            yield part
        elif part.type in ("text", "input_text", "output_text", "refusal"):
            yield part.text or ""
        elif part.type not in ("image_url", "input_image"):
            raise bad_request(
                f"parts of type `{part.type[:40]}` are not supported; send text and pictures", f"{place}[{number}].type"
            )


def _pictures(parts: Sequence[Part | str], place: str) -> Iterator[bytes]:
    for number, part in enumerate(parts):
        if isinstance(part, str) or part.type not in ("image_url", "input_image"):
            continue
        url = part.image_url.url if isinstance(part.image_url, _Url) else part.image_url or ""
        yield _picture(url, f"{place}[{number}].image_url")


def _picture(url: str, param: str) -> bytes:
    head, comma, encoded = url.partition(",")
    if not url.startswith("data:"):
        raise bad_request(
            "send pictures as data: URLs; GoClaw does not fetch addresses", param, "unsupported_image_url"
        )
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not comma or not head.endswith(";base64") or image_type(data) is None:
        raise bad_request("this is not a picture (PNG, JPEG, GIF or WebP in base64)", param, "invalid_image")
    return data
