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
    bug(
        "the title of a document reaches the model as words of the person who sends it",
        "class injection: GoClaw before 2026-12 put notes about an upload outside of the marks",
        "goclaw/conversation/turns/attachments.py",
        '[(f"[{head}: {place}{counted}]", "")',
        '[(f"[{head}: {place}; {document.head}]", "")',
        "tests/conversation/turns/test_attachments.py",
    ),
    bug(
        "words of a document begin lines of their own in what describes it",
        "class injection: line breaks in a title or in the name of a sheet",
        "goclaw/extensions/documents/reading.py",
        '_BREAKS.sub(" ", text[:_MAX_LINE])',
        "text[:_MAX_LINE]",
        "tests/extensions/documents/test_reading.py",
    ),
    bug(
        "one slow document takes the time of all",
        "GoClaw before 2026-12: documents after a slow one were never searched",
        "goclaw/tools/builtin/document_search.py",
        "scans=False, seconds=seconds)",
        "scans=False)",
        "tests/tools/builtin/test_document_search.py",
    ),
]
