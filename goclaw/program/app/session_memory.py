"""What this process has in memory of sessions: read when it takes one, dropped when it leaves it."""

from goclaw.common.core.events import SessionNow
from goclaw.common.core.records import record
from goclaw.program.app.parts import App
from goclaw.program.app.shared_folders import compare_folders


@record
class DaemonMemory:
    """Implements `SessionMemory` on the parts of the daemon."""

    app: App

    async def restore(self) -> None:
        self.app.sessions.ports.questions.restore(await self.app.foundation.storage.journal.list_open_questions())

    async def reload(self, session: str) -> None:
        self.leave(session)
        app = self.app
        await app.sessions.pauses.reload(session)
        await app.foundation.environment.tasks.restore()
        journal = app.foundation.storage.journal
        parked = [each for each in await journal.list_open_questions() if each.session == session]
        app.sessions.ports.questions.restore(parked)

    def leave(self, session: str) -> None:
        self.app.sessions.contexts.forget(session)
        self.app.models.forget(session)
        self.app.sessions.ports.questions.forget(session)
        self.app.sessions.costs.reservations.leave(session)

    def is_needed(self, session: str) -> bool:
        return self.app.foundation.environment.tasks.count(session) > 0

    async def inspect(self, session: str) -> SessionNow:
        return await self.app.sessions.inspection.now(session)

    async def compare_folders(self) -> None:
        await compare_folders(self.app.foundation)
