"""The reader's own process: opens the file at its standard input, and writes one bounded answer as JSON.

It is started in the sandbox, with nothing but the program, its libraries and the file. It reads one document and ends.
"""

import importlib
import json
import os
import resource
import sys
from dataclasses import replace
from typing import BinaryIO

from goclaw.common.core.document_kinds import SAMPLE, TAKEN, Kind, kind_of
from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted

MEMORY, SECONDS = 512 << 20, 30
"""Bytes and seconds of processor time of one call."""
REFUSED = b"refused "
"""Begins an answer that gives the reason for a refusal."""
MAX_ANSWER = 24 << 20
"""Bytes of an answer: its text, and a few pictures."""
_DEEPEST = 3
"""Containers within each other: a file in a zip that is attached to a mail."""


def main(asked: str) -> None:
    """Answer once; `asked` has the fields of `Wanted`, as JSON."""
    # The sandbox bounds more than this; without one these bounds are all there are.
    for kind, bound in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(kind, (bound, bound))
        except (OSError, ValueError):
            pass  # a system without this bound, or a lower one is set
    # Libraries warn on both streams; the answer has one to itself.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        line = json.dumps(extract(sys.stdin.buffer, Wanted(**json.loads(asked))).as_json()).encode()
        if len(line) > MAX_ANSWER:
            raise Refused("has pictures that are too large together; ask for fewer pages")
    except Refused as refusal:
        line = REFUSED + str(refusal).encode(errors="replace")
    except MemoryError:
        line = REFUSED + b"is not opened: that takes more than %d MB of memory" % (MEMORY >> 20)
    except RecursionError:
        line = REFUSED + b"is not opened: its parts are nested too deeply"
    except Exception as error:  # a parser may raise anything about a damaged file
        line = REFUSED + f"is damaged, or not of the kind that it claims ({type(error).__name__})".encode()
    sink.write(line)
    sink.flush()
    os._exit(0)  # what a parser holds takes longer to be taken down than the process


def extract(file: BinaryIO, wanted: Wanted) -> Answer:
    """Read a document, or one in a container. Raises Refused."""
    sample = file.read(SAMPLE)
    file.seek(0)
    kind = kind_of(sample, wanted.name, wanted.mime) or (Kind.PICTURE if sample.startswith(TAKEN) else None)
    if not sample:
        raise Refused("is empty")
    if kind is Kind.OLD_OFFICE:
        raise Refused(
            "is in the format of Office before 2007, or encrypted, which is not read; save it as DOCX, XLSX or PDF"
        )
    answer = Answer("text", wanted.characters)
    reader = importlib.import_module(f"goclaw.extensions.documents.formats.{kind or 'plain'}")
    reader.extract(file, wanted, answer)
    return answer


def extract_inner(file: BinaryIO, wanted: Wanted, answer: Answer, name: str, mime: str = "") -> None:
    """Read a file that lies in a container, into the container's answer."""
    if wanted.depth >= _DEEPEST:
        raise Refused(f"is not opened: files lie in more than {_DEEPEST} containers")
    inner = extract(file, replace(wanted, name=name, mime=mime, member="", depth=wanted.depth + 1))
    inner.kind = f"{name[:200]} in it, {inner.kind}"
    answer.__dict__.update(inner.__dict__)
