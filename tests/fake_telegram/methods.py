"""What each method of the Bot API does to the world. Parameters arrive checked by `oracle`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fake_telegram.rules import (
    CHAT_ACTIONS,
    MAX_CAPTION,
    ApiError,
    bad_request,
    check_commands,
    check_markup,
    check_text,
    check_webhook,
    scope_of,
)
from tests.fake_telegram.world import BOT, Json, World

SAME_MESSAGE = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current "
    "content and reply markup of the message"
)
WEBHOOK_CONFLICT = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)
POLLER_CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
MAX_DOWNLOAD = 20 * 1024 * 1024


@dataclass
class Methods:
    """The methods, each `name(parameters, uploads) -> result`."""

    world: World
    poller: asyncio.Future[None] | None = None
    """Of the long poll that waits now: resolved when a newer one takes its place."""
    waking: asyncio.Future[None] | None = None

    def find(self, name: str) -> Callable[[Json, Mapping[str, bytes]], Awaitable[Any]]:
        """The implementation of a method by its API name; `ApiError` 501 for one that the fake does not have."""
        found = getattr(self, f"do_{name}", None)
        if found is None:
            raise ApiError(501, f"the fake does not implement {name}")
        return found  # type: ignore[no-any-return]  # getattr by a name that comes from outside

    async def do_getMe(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        return BOT

    async def do_getUpdates(self, parameters: Json, uploads: Mapping[str, bytes]) -> list[Json]:
        if self.world.webhook:
            reason = (
                "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
            )
            raise ApiError(409, f"Conflict: {reason}")
        if self.poller and not self.poller.done():
            self.poller.set_result(None)
        mine = self.poller = asyncio.get_running_loop().create_future()
        if (offset := parameters.get("offset") or 0) > 0:
            self.world.confirm(offset)
        elif offset < 0 and len(self.world.updates) > -offset:
            self.world.confirm(self.world.updates[offset]["update_id"])  # counted from the end of the queue
        # Telegram does not even queue what the bot did not ask for.
        if allowed := parameters.get("allowed_updates"):
            self.world.updates = [update for update in self.world.updates if update.keys() & set(allowed)]
        await self.await_news(mine, parameters.get("timeout") or 0)
        if mine.done():
            raise ApiError(409, POLLER_CONFLICT)
        wanted = [update for update in self.world.updates if not allowed or update.keys() & set(allowed)]
        return wanted[: parameters.get("limit") or 100]

    async def await_news(self, mine: asyncio.Future[None], seconds: float) -> None:
        """Return when there are updates, when a newer poll began, or after `seconds`."""
        mine.add_done_callback(lambda _: self.wake())
        try:
            async with asyncio.timeout(seconds), self.world.changed:
                await self.world.changed.wait_for(lambda: self.world.updates or mine.done())
        except TimeoutError:
            pass  # a long poll without news ends with an empty list

    def wake(self) -> None:
        """Let the older poll see that it was replaced; the attribute keeps the task alive."""
        self.waking = asyncio.ensure_future(self.world.notify())

    async def do_sendMessage(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        check_text(parameters["text"], parameters.get("entities"))
        return self.put(parameters, self.body(parameters, "text", "entities"))

    async def do_sendMessageDraft(self, parameters: Json, uploads: Mapping[str, bytes]) -> bool:
        chat = self.open_chat(parameters)
        if chat < 0:
            raise bad_request("TEXTDRAFT_PEER_INVALID")
        if parameters["draft_id"] == 0:
            raise bad_request("RANDOM_ID_INVALID")
        if text := parameters.get("text"):
            check_text(text, parameters.get("entities"))
        self.world.drafts[chat] = self.body(parameters, "text", "entities") | {"draft_id": parameters["draft_id"]}
        return True

    async def do_editMessageText(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        message = self.own_message(parameters)
        if "text" not in message:
            raise bad_request("there is no text in the message to edit")
        check_text(parameters["text"], parameters.get("entities"))
        return self.change(message, self.body(parameters, "text", "entities", "reply_markup"))

    async def do_editMessageCaption(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        message = self.own_message(parameters)
        if caption := parameters.get("caption"):
            check_text(caption, parameters.get("caption_entities"), limit=MAX_CAPTION)
        return self.change(message, self.body(parameters, "caption", "caption_entities", "reply_markup"))

    async def do_editMessageReplyMarkup(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        message = self.own_message(parameters)
        kept = {key: message[key] for key in ("text", "entities", "caption", "caption_entities") if key in message}
        return self.change(message, kept | self.body(parameters, "reply_markup"))

    def own_message(self, parameters: Json) -> Json:
        """The message that an edit is about."""
        message = self.world.find(self.open_chat(parameters), parameters["message_id"], "to edit")
        if message["from"] != BOT:
            raise bad_request("message can't be edited")
        return message

    def change(self, message: Json, new: Json) -> Json:
        """Give a message another content; the same again is refused."""
        fields = ("text", "entities", "caption", "caption_entities", "reply_markup")
        check_markup(new.get("reply_markup"))
        if new == {key: message[key] for key in fields if message.get(key)}:
            raise bad_request(SAME_MESSAGE)
        place = message["chat"]["id"], message["message_id"]
        self.world.first_texts.setdefault(place, message.get("text", ""))
        for key in fields:
            message.pop(key, None)
        message |= new | {"edit_date": int(self.world.clock.now())}
        self.world.edits[place] = self.world.edits.get(place, 0) + 1
        return message

    async def do_deleteMessage(self, parameters: Json, uploads: Mapping[str, bytes]) -> bool:
        chat = self.open_chat(parameters)
        self.world.find(chat, parameters["message_id"], "to delete")
        del self.world.messages[chat, parameters["message_id"]]
        return True

    async def do_setMessageReaction(self, parameters: Json, uploads: Mapping[str, bytes]) -> bool:
        chat = self.open_chat(parameters)
        self.world.find(chat, parameters["message_id"], "to react")
        reactions = tuple(found["emoji"] for found in parameters.get("reaction") or ())
        if len(reactions) > 1:
            raise bad_request("REACTIONS_TOO_MANY")
        self.world.reactions[chat, parameters["message_id"]] = reactions
        return True

    async def do_sendChatAction(self, parameters: Json, uploads: Mapping[str, bytes]) -> bool:
        self.open_chat(parameters)
        if parameters["action"] not in CHAT_ACTIONS:
            raise bad_request("wrong parameter action in request")
        return True

    async def do_sendPhoto(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        return self.put_file(parameters, {"photo": self.world.photo_sizes(self.content(parameters, uploads, "photo"))})

    async def do_sendDocument(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        content, name = self.content(parameters, uploads, "document"), parameters.get("document_name", "document")
        return self.put_file(parameters, {"document": self.world.keep_file(content, name) | {"file_name": name}})

    async def do_sendVoice(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        content = self.content(parameters, uploads, "voice")
        if not content.startswith(b"OggS"):
            raise bad_request("wrong type of the file")
        return self.put_file(parameters, {"voice": self.world.keep_file(content, "voice.ogg") | {"duration": 1}})

    async def do_sendAudio(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        return self.put_file(parameters, {"audio": self.kept(parameters, uploads, "audio", duration=1)})

    async def do_sendVideo(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        seen = self.kept(parameters, uploads, "video", duration=1, width=640, height=480)
        return self.put_file(parameters, {"video": seen})

    async def do_sendAnimation(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        seen = self.kept(parameters, uploads, "animation", duration=1, width=640, height=480)
        return self.put_file(parameters, {"animation": seen, "document": seen})

    def kept(self, parameters: Json, uploads: Mapping[str, bytes], kind: str, **seen: int) -> Json:
        """A file that was uploaded, as a message shows it."""
        name = parameters.get(f"{kind}_name", kind)
        return self.world.keep_file(self.content(parameters, uploads, kind), name) | {"file_name": name} | seen

    async def do_getFile(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        number = parameters["file_id"]
        if number not in self.world.files:
            raise bad_request("wrong file_id or the file is temporarily unavailable")
        if len(self.world.files[number]) > MAX_DOWNLOAD:
            raise bad_request("file is too big")
        size = len(self.world.files[number])
        return {"file_id": number, "file_unique_id": number, "file_size": size, "file_path": f"documents/{number}"}

    async def do_setMyCommands(self, parameters: Json, uploads: Mapping[str, bytes]) -> bool:
        check_commands(parameters["commands"])
        self.world.commands[self.scope(parameters)] = parameters["commands"]
        return True

    async def do_getMyCommands(self, parameters: Json, uploads: Mapping[str, bytes]) -> list[Json]:
        return self.world.commands.get(self.scope(parameters), [])

    async def do_deleteMyCommands(self, parameters: Json, uploads: Mapping[str, bytes]) -> bool:
        self.world.commands.pop(self.scope(parameters), None)
        return True

    async def do_getChatAdministrators(self, parameters: Json, uploads: Mapping[str, bytes]) -> list[Json]:
        users = [
            {"id": number, "is_bot": False, "first_name": "A"}
            for number in self.world.admins.get(int(parameters["chat_id"]), ())
        ]
        return [{"status": "creator", "user": user, "is_anonymous": False} for user in users]

    async def do_answerCallbackQuery(self, parameters: Json, uploads: Mapping[str, bytes]) -> bool:
        if parameters["callback_query_id"] not in self.world.callbacks:
            raise bad_request("query is too old and response timeout expired or query ID is invalid")
        self.world.callbacks.remove(parameters["callback_query_id"])
        return True

    async def do_setWebhook(self, parameters: Json, uploads: Mapping[str, bytes]) -> bool:
        check_webhook(parameters)
        self.world.webhook = parameters["url"]
        self.world.webhook_settings = {name: value for name, value in parameters.items() if name != "url"}
        self.world.webhook_error, self.world.webhook_error_at = "", 0
        if parameters.get("drop_pending_updates"):
            self.world.updates.clear()
        return True

    async def do_deleteWebhook(self, parameters: Json, uploads: Mapping[str, bytes]) -> bool:
        self.world.webhook, self.world.webhook_settings = "", {}
        if parameters.get("drop_pending_updates"):
            self.world.updates.clear()
        return True

    async def do_getWebhookInfo(self, parameters: Json, uploads: Mapping[str, bytes]) -> Json:
        settings = self.world.webhook_settings
        info: Json = {
            "url": self.world.webhook,
            "has_custom_certificate": False,
            "pending_update_count": len(self.world.updates),
        }
        info |= {name: settings[name] for name in ("max_connections", "allowed_updates") if settings.get(name)}
        if self.world.webhook_error:
            info |= {
                "last_error_date": self.world.webhook_error_at,
                "last_error_message": self.world.webhook_error,
            }
        return info

    def scope(self, parameters: Json) -> str:
        """The key of a command menu: of everybody, or of a chat that the bot knows."""
        scope = parameters.get("scope") or {"type": "default"}
        if "chat_id" in scope:
            self.open_chat(scope)
        return scope_of(scope)

    def open_chat(self, parameters: Json) -> int:
        """The chat of a call, where the bot may write."""
        chat = parameters["chat_id"]
        if not isinstance(chat, int) or chat not in self.world.known_chats:
            raise bad_request("chat not found")
        if chat in self.world.blocked_by:
            raise ApiError(403, "Forbidden: bot was blocked by the user")
        return chat

    def put(self, parameters: Json, content: Json) -> Json:
        """A new message of the bot, checked and in the chat."""
        chat = self.open_chat(parameters)
        if (chat, parameters.get("message_thread_id")) in self.world.closed_topics:
            raise bad_request("TOPIC_CLOSED")
        reply = parameters.get("reply_parameters") or {}
        answered = self.world.messages.get((chat, reply.get("message_id", 0)))
        if reply and answered is None and not reply.get("allow_sending_without_reply"):
            raise bad_request("message to be replied not found")
        message = self.world.new_message(chat, BOT, topic=parameters.get("message_thread_id")) | content
        if answered:
            message["reply_to_message"] = {key: answered[key] for key in answered if key != "reply_to_message"}
        if markup := parameters.get("reply_markup"):
            check_markup(markup)
            message["reply_markup"] = markup
        self.world.messages[chat, message["message_id"]] = message
        self.world.drafts.pop(chat, None)
        return message

    def put_file(self, parameters: Json, content: Json) -> Json:
        """A new message with a file and perhaps a caption."""
        if caption := parameters.get("caption"):
            check_text(caption, parameters.get("caption_entities"), limit=MAX_CAPTION)
        return self.put(parameters, content | self.body(parameters, "caption", "caption_entities"))

    def content(self, parameters: Json, uploads: Mapping[str, bytes], name: str) -> bytes:
        """The bytes of a file parameter: uploaded now, or known by its id."""
        reference = parameters.get(name, "")
        if found := uploads.get(reference.removeprefix("attach://") or name):
            return found
        if reference in self.world.files:
            return self.world.files[reference]
        raise bad_request(f"there is no {name} in the request")

    def body(self, parameters: Json, *names: str) -> Json:
        """The parameters that become fields of the message; formatting is by entities only."""
        if parameters.get("parse_mode"):
            raise ApiError(501, "the fake does not implement parse_mode")
        return {name: parameters[name] for name in names if parameters.get(name)}
