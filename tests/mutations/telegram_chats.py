"""Bugs in how answers look in Telegram, and in what moves or closes there."""

from tests.mutations.bug import Bug, bug

_BLOCKS = "goclaw/channels/telegram/markdown_blocks.py"
_RENDER = "goclaw/channels/telegram/render.py"
_SENDER = "goclaw/channels/telegram/sender.py"
_RENDERED = "tests/channels/telegram/test_render.py"
_FAULTS = "tests/channels/telegram/test_sender_faults.py"
_LIVE_LOCATION = "tests/acceptance/test_telegram_session.py::test_the_last_place_of_a_live_location_counts"

BUGS: list[Bug] = [
    bug(
        "a person's menu of commands is sent again at each start",
        "issue 46: a request for each person who writes after an upgrade",
        "goclaw/channels/telegram/menus.py",
        'if await self._state.fact(f"{MENU}:{chat}") != digest:',
        "if True:",
        "tests/channels/telegram/test_menus.py::test_a_restart_sends_only_what_has_changed",
    ),
    bug(
        "who is gone from users.json keeps the menu",
        "issue 46: commands on the screen of a person who may run none",
        "goclaw/channels/telegram/menus.py",
        "                    await self._delete(int(person))\n",
        "                    pass\n",
        "tests/channels/telegram/test_menus.py::test_the_menu_of_a_person_who_is_gone_is_deleted",
    ),
    bug(
        "one odd piece unformats a whole answer in Telegram",
        "issue 43: a link with a title, a pipe in a table's code",
        _RENDER,
        "    text, spans = whole or _block_by_block(markdown)\n",
        "    text, spans = whole or (markdown, [])\n",
        f"{_RENDERED}::test_one_odd_block_leaves_the_others_formatted",
    ),
    bug(
        "bold beside CJK punctuation shows its asterisks in Telegram",
        "issue 43: colons, brackets, full stops",
        _BLOCKS,
        'return _BOLD.sub(_moved_out, markdown) if "**" in markdown and not markdown.isascii() else markdown',
        "return markdown",
        f"{_RENDERED}::test_bold_stands_beside_cjk_punctuation",
    ),
    bug(
        "a wide table stays a table in Telegram",
        "issue 43: a table that a phone wraps",
        _BLOCKS,
        "WIDEST_TABLE = 38\n",
        "WIDEST_TABLE = 380\n",
        f"{_RENDERED}::test_a_wide_table_is_a_list_for_each_row",
    ),
    bug(
        "Telegram links the names of files",
        "issue 43: README.md leads to a foreign site",
        _RENDER,
        "tidy([*spans, *names_as_code(text, spans)])",
        "tidy(spans)",
        f"{_RENDERED}::test_names_that_telegram_would_link_are_code",
    ),
    bug(
        "a checklist in Telegram is nothing",
        "issue 43: a checklist",
        "goclaw/channels/telegram/message_content.py",
        '    "checklist": _checklist,\n',
        "",
        "tests/channels/telegram/test_message_content_descriptions.py::test_what_is_shared_is_told_in_one_line",
    ),
    bug(
        "the moves of a live location in Telegram are not read",
        "issue 43: the last place counts",
        "goclaw/channels/telegram/updates.py",
        '(message := update.get("edited_message")) is not None:',
        '(message := update.get("edited_message")) is not None and "location" not in message:',
        _LIVE_LOCATION,
    ),
    bug(
        "each move of a live location in Telegram starts a turn",
        "issue 43: the last place counts",
        "goclaw/channels/telegram/updates.py",
        "read_messages(identity, [message], terms, edited=True)",
        'read_messages(identity, [message], terms, edited="location" not in message)',
        _LIVE_LOCATION,
    ),
    bug(
        "an answer to a closed topic in Telegram is given up",
        "issue 43: a closed topic",
        _SENDER,
        "            if target.thread is None or not refuses_topic(error):\n",
        "            if target.thread is None or not refuses_topic(error) or is_closed_topic(error):\n",
        f"{_FAULTS}::test_what_is_meant_for_a_closed_topic_goes_to_general_and_names_it",
    ),
    bug(
        "an answer to a closed topic in Telegram replies into it",
        "issue 43: a closed topic",
        _SENDER,
        "replace(target, thread=None, reply_to=None)",
        "replace(target, thread=None)",
        f"{_FAULTS}::test_what_is_meant_for_a_closed_topic_goes_to_general_and_names_it",
    ),
    bug(
        "the operator does not learn that the General topic in Telegram is closed",
        "issue 43: a closed topic",
        _SENDER,
        "                raise self._blocked.report_closed_topic(target.chat) from error\n",
        "                raise\n",
        "tests/channels/telegram/test_chat_access_blocked_chats.py"
        "::test_a_message_for_a_closed_general_topic_is_given_up_and_the_operator_is_told_once",
    ),
]
