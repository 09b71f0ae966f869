"""Standing approvals (`always`): for which person and containment, and by whom."""

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, select

from goclaw.common.core.records import record
from goclaw.durable.store.database import Database, Statement, columns_of, insert_into
from goclaw.durable.store.schema import approval_rules

_ADD = insert_into(approval_rules, *columns_of(approval_rules), ignore_conflict=True)
_MATCHING = Statement(
    select(approval_rules)
    .where(
        approval_rules.c.holder == bindparam("holder"),
        approval_rules.c.tool == bindparam("tool"),
        approval_rules.c.place == bindparam("place"),
    )
    .order_by(approval_rules.c.id)
)
_ALL = Statement(select(approval_rules).order_by(approval_rules.c.id))
_REMOVE = Statement(delete(approval_rules).where(approval_rules.c.id == bindparam("number")))
MAX_ID = 2**63 - 1


@record
class ApprovalRule:
    """A rule that lets calls run without asking."""

    question: str
    """Id of the approval that it was made with: made once, however often that is repeated after a crash."""
    holder: str
    tool: str
    place: str
    pattern: str
    label: str
    made_by: str
    by_owner: bool
    made_at: float
    id: int = 0


class ApprovalRules:
    """Keeps, finds and removes rules."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, rules: Sequence[ApprovalRule]) -> None:
        """Keep rules, all or none. On disk when this returns."""
        statements = [_ADD(**{name: getattr(rule, name) for name in columns_of(approval_rules)}) for rule in rules]
        await self._database.write(*statements, durable=True)

    async def matching(self, holder: str, tool: str, place: str) -> list[ApprovalRule]:
        """Return the rules for a person, a tool and a containment."""
        found = await self._database.read(_MATCHING(holder=holder, tool=tool, place=place))
        return [_rule(dict(row)) for row in found]

    async def all(self) -> list[ApprovalRule]:
        """Return every rule, the oldest first."""
        return [_rule(dict(row)) for row in await self._database.read(_ALL())]

    async def remove(self, number: int) -> bool:
        """Remove a rule. On disk when this returns; False: no rule has that number."""
        if not 0 < number <= MAX_ID:
            return False
        return (await self._database.write(_REMOVE(number=number), durable=True))[0].rowcount == 1


def _rule(row: dict[str, object]) -> ApprovalRule:
    return ApprovalRule(**{**row, "by_owner": bool(row["by_owner"])})  # type: ignore[arg-type]  # the table's columns
