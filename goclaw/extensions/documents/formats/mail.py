"""EML: the heads and the text of a mail, and a list of its attachments; with one named, that one."""

import email
import email.policy
import io
from email.message import Message, MIMEPart
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted, add_flow
from goclaw.extensions.documents.formats.plain import decode
from goclaw.extensions.documents.formats.web import blocks_of
from goclaw.extensions.documents.worker import extract_inner

_HEADS = ("From", "To", "Cc", "Reply-To", "Date", "Subject")
_MAX_HEAD = 1_000
_MAX_PARTS = 1_000


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read a mail."""
    message = email.message_from_binary_file(file, policy=email.policy.default)
    if not any(message[name] for name in ("From", "To", "Subject", "Date")):
        raise Refused("is no mail: it has neither sender nor subject")
    attachments = [part for _, part in zip(range(_MAX_PARTS), message.iter_attachments(), strict=False)]
    names = [part.get_filename() or f"part-{number}" for number, part in enumerate(attachments, 1)]
    if wanted.member:
        if wanted.member not in names:
            raise Refused(f"has no attachment {wanted.member[:100]!r}; it has {', '.join(names)[:500] or 'none'}")
        part = attachments[names.index(wanted.member)]
        extract_inner(io.BytesIO(_bytes_of(part)), wanted, answer, wanted.member, part.get_content_type())
        return
    answer.kind = "mail"
    heads = [f"{name}: {' '.join(str(message[name]).split())[:_MAX_HEAD]}" for name in _HEADS if message[name]]
    listed = [
        f"[attachment {name}: {part.get_content_type()}, {len(_bytes_of(part)):,} bytes; its name as member reads it]"
        for name, part in zip(names, attachments, strict=True)
    ]
    blocks = [(0, head) for head in heads] + [(0, line) for line in listed] + [(0, "")]
    body = message.get_body(("plain", "html"))
    if body is not None:
        text = decode(_bytes_of(body), body.get_content_charset() or "")
        is_page = body.get_content_type() == "text/html"
        blocks += list(blocks_of(text)) if is_page else [(0, line) for line in text.splitlines()]
    add_flow(answer, wanted, blocks)


def _bytes_of(part: MIMEPart) -> bytes:
    """Return the content of a part; an attached mail as it is written."""
    if part.get_content_maintype() == "message":
        inner = part.get_payload()
        return inner[0].as_bytes() if isinstance(inner, list) and isinstance(inner[0], Message) else b""
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""
