"""The statements in the log of a Postgres that logs all of them (`tests.postgres.LOGGED`), by transaction."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LINE = re.compile(r"^\[(?P<pid>\d+)\] (?P<name>.*?) \| LOG:  (?:statement|execute [^:]*): ?(?P<text>.*)$")
IDLING = re.compile(
    r"^$|^SELECT 1$|procrastinate_(?:fetch_job|update_heartbeat|prune_stalled|register_worker)|INSERT INTO replicas"
    r"|FROM look_for_the_dead\(|pg_try_advisory_lock"
)
"""What a process does again and again, whether there are messages or not."""
ENDS = ("COMMIT", "ROLLBACK")


@dataclass(frozen=True)
class Sent:
    """A statement that a process of GoClaw has sent."""

    pid: str
    """Of the connection's server process."""
    name: str
    """`application_name` of the connection."""
    text: str
    """In one line."""


def sent(log: str) -> Iterator[Sent]:
    """Return the statements of a piece of the log, in their order; a text of several lines is joined."""
    found: Sent | None = None
    for line in log.splitlines():
        if match := LINE.match(line):
            if found:
                yield found
            found = Sent(match["pid"], match["name"], match["text"].strip())
        elif line.startswith("\t") and found:
            found = Sent(found.pid, found.name, f"{found.text} {line.strip()}".strip())
        elif found:
            yield found
            found = None
    if found:
        yield found


def transactions(statements: Iterable[Sent]) -> list[list[str]]:
    """Return the texts of each transaction that GoClaw ended, BEGIN and COMMIT included; one that idles is left out."""
    ended: list[list[str]] = []
    begun: dict[str, list[str]] = {}
    for each in statements:
        if not each.name.startswith("goclaw "):
            continue
        if each.text == "BEGIN":
            begun[each.pid] = [each.text]
        elif each.pid in begun:
            begun[each.pid].append(each.text)
            if each.text.startswith(ENDS):
                ended.append(begun.pop(each.pid))
        else:
            ended.append([each.text])
    return [texts for texts in ended if not all(_idles(text) for text in texts)]


def _idles(text: str) -> bool:
    return text == "BEGIN" or text.startswith(ENDS) or bool(IDLING.search(text))


def counted(log: str) -> Counter[str]:
    """Count what a piece of the log has of the work for messages: `transactions`, `statements`, `commits`."""
    done = transactions(sent(log))
    texts = [text for each in done for text in each]
    return Counter(transactions=len(done), statements=len(texts), commits=texts.count("COMMIT"))
