"""How long a text is for a model, estimated; the providers' own counts replace this as soon as there is one."""

from goclaw.messages import AssistantMessage, Message, ToolResult, UserMessage

BYTES_PER_TOKEN = 4
"""The usual rule of thumb for English prose and code with today's tokenizers."""
PER_MESSAGE = 4
PER_IMAGE = 1_600
"""What the large providers charge for a picture of about a megapixel."""


def estimate_text(text: str) -> int:
    """Tokens of a text. Counted in UTF-8 bytes, so that scripts beyond Latin are not taken for short."""
    size = len(text) if text.isascii() else len(text.encode(errors="replace"))
    return (size + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN


def estimate(message: Message) -> int:
    """Tokens of a message."""
    match message:
        case UserMessage():
            return PER_MESSAGE + estimate_text(message.text) + PER_IMAGE * len(message.images)
        case AssistantMessage():
            calls = sum(PER_MESSAGE + estimate_text(call.name + str(call.input)) for call in message.calls)
            return PER_MESSAGE + estimate_text(message.text) + calls
        case ToolResult():
            return PER_MESSAGE + estimate_text(message.content)
