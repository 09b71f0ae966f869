"""Planted bugs in the reading of documents."""

from tests.mutations.bug import Bug, bug

BUGS: list[Bug] = [
    bug(
        "a document is read without containment where commands have none",
        "class sandbox: an operator's choice for commands taken for one about files of strangers",
        "goclaw/extensions/documents/reading.py",
        "    if given.tier not in (OFF, NONE):",
        "    if given.tier != NONE:",
        "tests/extensions/documents/test_reading.py",
    ),
    bug(
        "a document declares XML entities",
        "CVE-2014-3529 (Apache POI), class XXE and billion laughs",
        "goclaw/extensions/documents/formats/markup.py",
        "    parser.EntityDeclHandler = refuse\n",
        "",
        "tests/adversarial/test_documents.py",
    ),
    bug(
        "a file in an archive unpacks without a bound",
        "class zip bomb",
        "goclaw/extensions/documents/formats/markup.py",
        "                    if left < 0:",
        "                    if left < -(1 << 40):",
        "tests/adversarial/test_documents.py",
    ),
    bug(
        "the words of a document count as a person's own",
        "class injection: a PDF that somebody sent",
        "goclaw/tools/builtin/read.py",
        "    ctx.set_source(SourceKind.DOCUMENT)  # others wrote it, or may have\n",
        "",
        "tests/extensions/documents/test_reading.py",
    ),
    bug(
        "the answer of a reader that is taken over has no bound",
        "class trust: the process that holds the attacker's file is believed",
        "goclaw/extensions/documents/reading.py",
        "mask_known(told.text[:characters])",
        "mask_known(told.text)",
        "tests/extensions/documents/test_reading.py",
    ),
]
