"""Bugs in what is heard: whose words a message holds, what it refers to, what came before it."""

from tests.mutations.bug import Bug, bug

_REPLIES = "goclaw/channels/telegram/replies.py"
_SESSION = "tests/acceptance/test_telegram_session.py"

BUGS: list[Bug] = [
    bug(
        "what the bot said itself is left out of a reply to it",
        "issue: the agent asks what is meant by `do it`",
        _REPLIES,
        "        return Answered(content, YOURS, Provenance(SourceKind.AGENT))\n",
        "        return Answered({}, YOURS, Provenance(SourceKind.AGENT))\n",
        "tests/channels/telegram/test_replies.py::test_an_answer_to_the_bot_says_to_which_of_its_messages",
        f"{_SESSION}::test_a_reply_says_to_the_model_what_it_answers",
    ),
    bug(
        "what the bot quoted counts as its own words",
        "class injection: a page is quoted, then answered",
        _REPLIES,
        "if is_quoted else (answered.words",
        "if False else (answered.words",
        "tests/channels/telegram/test_replies.py::test_what_the_bot_quoted_itself_keeps_its_origin",
    ),
    bug(
        "what one passed on counts as one's own words",
        "class injection: a forward is answered by its sender",
        _REPLIES,
        "    if origin := forwarded_from(answered):",
        "    if (origin := forwarded_from(answered)) and sender is None:",
        "tests/channels/telegram/test_replies.py::test_what_one_passed_on_stays_anothers",
    ),
    bug(
        "a reply to a file comes without it",
        "issue: `crop this` below a photo of somebody else's",
        "goclaw/channels/telegram/inbound.py",
        "for attachment in found), *answered)",
        "for attachment in found),)",
        "tests/channels/telegram/test_replies.py::test_an_answer_to_a_file_brings_it",
    ),
    bug(
        "the voice of another person is the sender's own",
        "class injection: a stranger's voice note is answered",
        "goclaw/sessions/received.py",
        "by_sender = attachment.origin is None or",
        "by_sender = True or",
        "tests/sessions/test_received.py::test_a_voice_message_that_is_answered_is_the_voice_of_its_speaker",
    ),
    bug(
        "links behind words lose their targets",
        "issue: `summarise this` with a link is a riddle",
        "goclaw/channels/telegram/texts.py",
        '            return "" if link in (shown, f"{shown}/") else link\n',
        '            return ""\n',
        "tests/channels/telegram/test_replies.py",
    ),
    bug(
        "the agent's own words are shown as a stranger's",
        "issue: a reply `do it` is refused, because what it answers is material",
        "goclaw/context/fences.py",
        "yield harmless(words) if piece.is_own else fenced(",
        "yield fenced(",
        "tests/test_messages.py::test_the_agents_own_words_are_no_material_and_end_no_marks",
    ),
    bug(
        "a forward counts as the sender's own words",
        "class injection: provenance that is not looked at",
        "goclaw/messages.py",
        "        return self.kind in OWN\n",
        "        return True\n",
        "tests/test_messages.py::test_the_agents_own_words_are_no_material_and_end_no_marks",
    ),
    bug(
        "rows forget where their parts come from",
        "class injection: provenance that ends with the process",
        "goclaw/store/transcripts.py",
        "    return [piece.start, piece.end, piece.origin, provenance.kind, *author]\n",
        "    return [piece.start, piece.end, piece.origin]\n",
        "tests/test_messages.py::test_the_provenance_of_each_part_survives_the_store",
    ),
    bug(
        "a summary washes its sources",
        "class injection: what a page said is history by now",
        "goclaw/context/compaction.py",
        "    outside = window.outside | outside_sources(",
        "    outside = frozenset() & outside_sources(",
        "tests/context/test_compaction.py::test_a_summary_of_a_summary_keeps_the_sources_of_both",
    ),
]
