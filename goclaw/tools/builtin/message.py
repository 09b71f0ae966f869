"""The `message` tool: the agent writes to a chat by itself, besides the answer that every turn has."""

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from unicodedata import category

from pydantic import AfterValidator, Field, ValidationInfo

from goclaw.common.auth.access import is_group
from goclaw.common.core.events import LOCAL, Address, Delivery
from goclaw.common.core.messages import SENT
from goclaw.common.specs import Example, Risk, SideEffect
from goclaw.errors import ToolError
from goclaw.tools.approval.guard import Route, Sink
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.toolkit.attached_files import store_file
from goclaw.tools.toolkit.base import CallRisk, ToolContext, guarded, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

Action = Literal["send", "react", "edit", "delete"]

MAX_TEXT = 100_000
"""Characters of a message: far more than a person reads in a chat."""
MAX_NAME = 200
"""Characters of an id, a channel's name, an emoji."""


def _required_for(*actions: Action, unless: str = "") -> Callable[[str, ValidationInfo], str]:
    """Return a check that a field has a value for these actions, unless the field `unless` has one."""

    def check(value: str, info: ValidationInfo) -> str:
        action = info.data.get("action")  # missing when it is itself at fault
        if action in actions and not value.strip() and not info.data.get(unless):
            raise ValueError(f"required for action {action}")
        return value

    return check


def _on_one_line(value: str) -> str:
    # Emoji are joined by characters that count as not printable.
    if any(category(character) in ("Cc", "Cs", "Zl", "Zp") for character in value):
        raise ValueError("expected one line without control characters")
    return value


def _only_to_send(value: str, info: ValidationInfo) -> str:
    if value and info.data.get("action", "send") != "send":
        raise ValueError("only for action send")
    return value


_IN_A_CHAT = {"send": "send to", "react": "react in", "edit": "edit in", "delete": "delete from"}


def _destination(ctx: ToolContext, action: Action, channel: str, chat_id: str) -> Address:
    """Return the chat of the message: the conversation's own unless the arguments name another one.

    Raises:
        ToolError: there is no such chat, or the acting person may not write to it.
    """
    own = ctx.address
    channel = channel or own.channel
    is_own = channel == own.channel and chat_id in ("", own.chat)
    if channel == LOCAL and not (is_own and action == "send"):
        raise ToolError(
            f"there is no chat to {_IN_A_CHAT[action]}: this conversation is in a terminal, on the page or of a "
            "program; name channel and chat_id"
        )
    if is_own:
        return own
    if not chat_id:
        raise ToolError(f'field "chat_id": required for channel {channel}, which is not this conversation\'s')
    decision = ctx.authorize("message.other", f"{channel}:{chat_id}")
    if not decision.allowed:
        raise ToolError(f"permission denied: this person may not write to {channel}:{chat_id}")
    return Address(channel, chat_id)


_Text = Annotated[str, Field(max_length=MAX_TEXT)]
_Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_on_one_line)]


def _risk(arguments: Any, ctx: ToolContext) -> Risk:
    # A chat that may not or cannot be written to at all fails here, before approval is requested.
    address = _destination(ctx, arguments.action, arguments.channel, arguments.chat_id)
    if address == ctx.address:
        return Risk.LOW
    ctx.check_delivery(Delivery("", address, action=arguments.action, media=arguments.media_path or None))
    return Risk.HIGH


_KINDS = {"send": "messages", "react": "reactions", "edit": "changes", "delete": "removals"}


async def _grounds(arguments: Any, ctx: ToolContext) -> Grounds:
    """Return the file as it is now; the chat may be allowed permanently for one kind of action."""
    address = _destination(ctx, arguments.action, arguments.channel, arguments.chat_id)
    chat = f"{address.channel}:{address.chat}"
    facts = await ctx.workspace.fingerprints([arguments.media_path] if arguments.media_path else [])
    what = f"{arguments.action} a file" if arguments.media_path else arguments.action
    label = f"{_KINDS[arguments.action] if not arguments.media_path else 'files'} to {chat}"
    return Grounds(facts, pattern=(f"{what}: {chat}",), labels=(label,), recipient=chat)


def _sink(arguments: Any, ctx: ToolContext) -> Sink | None:
    address = _destination(ctx, arguments.action, arguments.channel, arguments.chat_id)
    chat = f"{address.channel}:{address.chat}"
    if arguments.media_path and (address != ctx.address or address.reply_to is not None or is_group(chat)):
        return Sink(Route.FILE, f"a file is sent to {chat}")
    return None if address == ctx.address else Sink(Route.SEND, f"A message to {chat}")


def _access(arguments: Any, ctx: ToolContext) -> ResourceUse:
    """Return the resource use: messages to one chat keep the order of the calls."""
    address = _destination(ctx, arguments.action, arguments.channel, arguments.chat_id)
    reads = (arguments.media_path,) if arguments.media_path else ()
    return ResourceUse(reads=reads, category="network", orders=(f"chat {address.channel}:{address.chat}",))


class Done(Result):
    """What became of a message."""

    action: Action
    channel: str
    chat: str
    message_id: Annotated[str, Field(description="Of the message that was sent, or that something was done to")] = ""
    emoji: str = ""
    held: Annotated[bool, Field(description="Whether the receiver is asked first and it has not gone yet")] = False

    def text(self) -> str:
        match self.action:
            case "send" if self.held:
                return (
                    f"not sent yet: {self.channel}:{self.chat} is asked first whether such messages are welcome; after "
                    "a yes within 24 hours it is sent, else the person is told. Do not send it again"
                )
            case "send":
                sent = f"sent to {self.channel}:{self.chat}" if self.channel != LOCAL else "shown in this conversation"
                return f"{sent}, message id {self.message_id}" if self.message_id else sent
            case "react":
                return f"reacted with {self.emoji} to message {self.message_id}"
            case "edit":
                return f"edited message {self.message_id}"
            case "delete":
                return f"deleted message {self.message_id}"


# Idempotent, although it reaches out: a repeated call has the same delivery id, and what was delivered under an id is
# not delivered again.
@guarded(_sink)
@tool(
    side_effect=SideEffect.NETWORK,
    risk=CallRisk(Risk.HIGH, _risk),
    idempotent=True,
    foreign=False,
    title="Message to a chat",
    tags=("conversation",),
    grounds=_grounds,
    access=_access,
    asks=(
        "{{ action ~ {'send':' this to','react':' in'}.get(action,' a message in') }} "
        "{{ chat_id or 'this chat' }}{{ channel and ' on ' ~ channel }}"
    ),
    does="send messages",
    call_hint="{{ action }}{% if media_path %} {{ media_path }}{% endif %}{% if chat_id %} in {{ chat_id }}{% endif %}",
    result_hint="{{ 'shown here' if channel == 'local' else 'waits for a yes' if held "
    "else 'sent' if action == 'send' else action + ': done' }}",
    examples=(
        Example("Write besides the answer", {"action": "send", "text": "The report is **ready**."}, output="sent to "),
        Example(
            "Send a file of the workspace",
            {"action": "send", "media_path": "report.csv", "text": "As you wished"},
            output="message id",
            files={"report.csv": "a,b\n1,2\n"},
        ),
        Example(
            "React to a message",
            {"action": "react", "message_id": "789", "emoji": "👍"},
            output="reacted with 👍 to message 789",
        ),
    ),
)
async def message(
    ctx: ToolContext,
    action: Annotated[Action, Field(description="What to do")],
    channel: Annotated[_Name, Field(description="Channel name; default: this conversation's")] = "",
    chat_id: Annotated[_Name, Field(description="Chat id; default: this conversation's")] = "",
    message_id: Annotated[
        _Name,
        AfterValidator(_required_for("react", "edit", "delete")),
        Field(
            description="Target message, for react, edit and delete: the message id in a <context> line, or one that "
            "send returned",
            validate_default=True,
        ),
    ] = "",
    emoji: Annotated[
        _Name,
        AfterValidator(_required_for("react")),
        Field(description="Reaction emoji, for react", validate_default=True),
    ] = "",
    media_path: Annotated[
        str,
        AfterValidator(_only_to_send),
        Field(description="File of the workspace to send along (up to 20 MB), for send"),
    ] = "",
    text: Annotated[
        _Text,
        AfterValidator(_required_for("send", "edit", unless="media_path")),
        Field(
            description="Markdown, for send and edit; with media_path its caption",
            validate_default=True,
        ),
    ] = "",
) -> Done:
    """Send a message to a chat by yourself, or react to, edit or delete a message there.

    Your answer and files it links to reach this conversation anyway: use this for a message besides it, a reaction,
    or another chat.
    """
    address = _destination(ctx, action, channel, chat_id)
    file = await store_file(ctx.workspace, ctx.blobs, media_path, SENT) if media_path else None
    delivery = Delivery(
        id=f"{ctx.turn}:{ctx.step}",
        address=address,
        text=text,
        action=action,
        message_id=message_id or None,
        emoji=emoji or None,
        media=file.blob if file else None,
        media_name=PurePosixPath(media_path).name,
    )
    receipt = await ctx.deliver(delivery, file)
    return Done(
        action=action,
        channel=address.channel,
        chat=address.chat,
        message_id=(receipt.message_id or "") if action == "send" else message_id,
        emoji=emoji if action == "react" else "",
        held=receipt.held,
    )
