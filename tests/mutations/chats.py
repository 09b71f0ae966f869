"""Bugs in what is heard and shown in Telegram."""

from tests.mutations.bug import Bug, bug

_WORDING = "goclaw/sessions/wording.py"

BUGS: list[Bug] = [
    bug(
        "a number chooses an option beside which it does not stand",
        "class questions: 1 approves a plan whose first step is 1",
        _WORDING,
        "return question.is_numbered and (channel == LOCAL or not buttons(question))",
        "return True",
        "tests/sessions/test_wording.py::test_what_is_typed_means_what_stands_there",
    ),
    bug(
        "options are a list of Markdown, which goes on counting",
        "class questions: 1. and 2. are shown as 3. and 4.",
        _WORDING,
        'f"({number}) {option}" if numbered',
        'f"{number}. {option}" if numbered',
        "tests/sessions/test_wording.py::"
        "test_in_a_chat_each_number_stands_beside_one_option_whatever_markdown_comes_before",
    ),
    bug(
        "a place that is shared is only said to have come",
        "class telegram: a location without its coordinates",
        "goclaw/channels/telegram/files.py",
        "    line = described(message)\n",
        '    line = "[A location]" if described(message) else ""\n',
        "tests/channels/telegram/test_descriptions.py::test_what_is_shared_is_told_in_one_line",
    ),
    bug(
        "what is shared in a forwarded message passes for its sender's words",
        "class telegram: a poll that was forwarded gives orders",
        "goclaw/channels/telegram/inbound.py",
        '        (note, origin, FORWARDED) if origin else (note, "")',
        '        (note, "")',
        "tests/channels/telegram/test_descriptions.py::test_what_was_forwarded_is_another_s_words",
    ),
    bug(
        "the typing sign flashes before an answer that is there at once",
        "class telegram: a request for nothing before each quick answer",
        "goclaw/channels/telegram/live.py",
        "        await self._either(view.ended, QUICK_SECONDS)\n        while not view.ended.is_set() and",
        "        while not view.ended.is_set() and",
        "tests/channels/telegram/test_live.py::test_a_quick_answer_has_neither_a_typing_sign_nor_a_preview",
    ),
    bug(
        "every message gets the reaction, commands and repeated ones, too",
        "class telegram: a sign that something works where nothing does",
        "goclaw/channels/telegram/intake.py",
        "if self._ports.ack_reaction and acceptance.kind is AcceptKind.TURN:",
        "if self._ports.ack_reaction:",
        "tests/channels/telegram/test_intake.py::test_a_message_that_is_taken_in_gets_its_reaction_once",
    ),
    bug(
        "the topic of a private chat is a session of somebody else",
        "class sessions: nobody but an admin is heard in a topic",
        "goclaw/access.py",
        "    if person.roles and without_topic(session) == own_session(user.key):",
        "    if person.roles and session == own_session(user.key):",
        "tests/test_access.py::test_topics_of_a_private_chat_are_its_person_s_own",
    ),
    bug(
        "what is meant for a deleted topic is lost",
        "class telegram: an answer that fails for good",
        "goclaw/channels/telegram/sending.py",
        "if target.thread is None or not names_lost_topic(error):",
        "if True:",
        "tests/channels/telegram/test_sending_faults.py::test_what_is_meant_for_a_topic_that_is_gone_goes_to_the_chat",
    ),
    bug(
        "each edit comes as a document",
        "class telegram: three files behind each answer",
        "goclaw/sessions/artifacts.py",
        "if channel.capabilities.diffs or each.mime != DIFF]",
        "]",
        "tests/sessions/test_artifacts.py::test_changes_of_files_are_sent_only_where_the_channel_wants_them",
    ),
    bug(
        "the indentation of the status is lost",
        "class telegram: Markdown joins lines that stood below each other",
        "goclaw/gateway.py",
        'fenced(reply.text) if reply.aligned else ""',
        '""',
        "tests/commands/test_status.py::test_a_chat_shows_the_status_as_it_is_and_the_event_loop_to_admins_only",
    ),
    bug(
        "each part of a long text is a message",
        "class telegram: half of a question is answered",
        "goclaw/channels/telegram/intake.py",
        "(name := name or self._text_of(message))",
        "name",
        "tests/channels/telegram/test_albums_texts.py::"
        "test_the_parts_of_a_long_text_are_one_message_as_soon_as_a_short_one_ends_it",
    ),
    bug(
        "what a person sends right behind a message is answered by itself",
        "class telegram: half of a thought is answered, then the other half",
        "goclaw/sessions/withdrawing.py",
        "if self.is_open and not self._timeout.expired() and self._wanted():",
        "if False:",
        "tests/acceptance/test_telegram_session.py::test_what_comes_right_behind_a_message_joins_it",
    ),
    bug(
        "a video note is a file and nothing else",
        "class telegram: what was spoken is not heard",
        "goclaw/sessions/received.py",
        'case "voice" | "audio" | "video_note":',
        'case "voice" | "audio":',
        "tests/sessions/test_received.py::test_a_video_note_is_kept_and_transcribed_as_its_sender_s_own_words",
    ),
]
