"""Bugs in what is heard: whose words a message holds, what it refers to, what came before it."""

from tests.mutations.bug import Bug, bug

BUGS: list[Bug] = [
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
