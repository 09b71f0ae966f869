"""Bugs in the guard: what a model that obeys others could do unasked."""

from tests.mutations.bug import Bug, bug

RULES = "goclaw/tools/approval/guard.py"
TESTS = "tests/tools/approval/test_guard.py"
LABELLING = "tests/tools/toolkit/test_labelling.py"

BUGS: list[Bug] = [
    bug(
        "an address that begins like a known one is free",
        "class egress: a query behind a page that was read",
        RULES,
        "    return _as_sent(address) in _literal_addresses(seen)\n",
        "    return any(_as_sent(address).startswith(known) for known in _literal_addresses(seen))\n",
        f"{TESTS}::test_any_other_address_asks_after_others_words_and_private_ones",
    ),
    bug(
        "marks behind an address do not count",
        "class egress: letters of punctuation carry bits",
        RULES,
        "    if is_literal(address, seen):\n",
        '    if is_literal(address.rstrip(".,;"), seen):\n',
        f"{TESTS}::test_any_other_address_asks_after_others_words_and_private_ones",
    ),
    bug(
        "a private text with a full stop is an address",
        "class egress: a secret as the name of a host",
        RULES,
        "bare=not part.private)",
        "bare=True)",
        f"{TESTS}::test_any_other_address_asks_after_others_words_and_private_ones",
    ),
    bug(
        "pages of one host are not counted",
        "class egress: a choice among links",
        RULES,
        "        if seen.pages.get(domain, 0) < MAX_PAGES:\n            return None\n",
        "        if seen.pages.get(domain, 0) >= 0:\n            return None\n",
        f"{TESTS}::test_a_choice_among_many_pages_of_one_host_asks_in_the_end",
    ),
    bug(
        "the task of a subagent counts as a person's words",
        "class egress: an address that the parent made up",
        "goclaw/conversation/agent/context/labels.py",
        "if window is windows[-1] else []",
        "if True else []",
        "tests/conversation/agent/context/test_labels.py"
        "::test_an_agent_has_the_labels_of_all_above_it_and_its_task_is_no_word_of_a_person",
    ),
    bug(
        "a file that is written after others' words has no label",
        "class memory poisoning: orders that come back from a file",
        "goclaw/tools/toolkit/labelling.py",
        "            if changed:\n                await self.labels.add(",
        "            if not changed:\n                await self.labels.add(",
        f"{LABELLING}::test_a_file_written_after_others_words_carries_their_label",
    ),
    bug(
        "hooks that a command leaves stay",
        "class persistence: .git/hooks/pre-commit",
        "goclaw/tools/toolkit/labelling.py",
        "acting = await asyncio.to_thread(ActingFiles, folder) if followed.is_command and is_foreign else None",
        "acting = None",
        f"{LABELLING}::test_what_a_command_leaves_that_acts_later_is_set_aside_and_told",
    ),
    bug(
        "settings of git that name programs are harmless",
        "class persistence: core.hooksPath",
        "goclaw/tools/toolkit/acting_files.py",
        "    return bool(is_plain) and",
        "    return bool(sign) and",
        "tests/tools/toolkit/test_acting_files.py::test_a_new_one_is_set_aside",
    ),
    bug(
        "a link of the model's own making hides its address",
        "class egress: a link that a person presses",
        "goclaw/conversation/turns/shown_links.py",
        "        return bool(_SCHEME.match(address)) and self._must_show(address)\n",
        "        return bool(_SCHEME.match(address)) and not self._must_show(address)\n",
        "tests/conversation/turns/test_shown_links.py::test_an_address_that_nobody_wrote_is_visible",
    ),
    bug(
        "in plan mode the guard asks",
        "class modes: plan mode changes nothing",
        "goclaw/tools/toolkit/guarding.py",
        '        if finding and (rule == "deny" or mode == "plan"):\n',
        '        if finding and rule == "deny":\n',
        f"{LABELLING}::test_in_plan_mode_it_is_refused",
    ),
    bug(
        "an address that a command prints was read",
        "class egress: the model's own words come back as a result",
        RULES,
        "        if part.is_source:\n",
        "        if part.text:\n",
        f"{TESTS}::test_an_address_that_the_model_had_repeated_was_not_read",
    ),
]
