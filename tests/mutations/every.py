"""Every planted bug, the areas in turn, so that a run that is cut has seen something of each."""

from itertools import chain, zip_longest

from tests.mutations import (
    approvals,
    chats,
    client,
    commands,
    conversations,
    doors,
    files,
    hearing,
    metrics,
    models,
    offering,
    outside,
    people,
    plugins,
    programs,
    releasing,
    rights,
    supervised,
    talk,
    times,
    tools,
    upgrades,
    web_content,
    web_page,
)
from tests.mutations.bug import Bug

AREAS = (
    approvals.BUGS,
    chats.BUGS,
    client.BUGS,
    commands.BUGS,
    conversations.BUGS,
    doors.BUGS,
    files.BUGS,
    hearing.BUGS,
    metrics.BUGS,
    models.BUGS,
    offering.BUGS,
    outside.BUGS,
    people.BUGS,
    plugins.BUGS,
    programs.BUGS,
    releasing.BUGS,
    rights.BUGS,
    supervised.BUGS,
    talk.BUGS,
    times.BUGS,
    tools.BUGS,
    upgrades.BUGS,
    web_content.BUGS,
    web_page.BUGS,
)
BUGS: list[Bug] = [bug for bug in chain.from_iterable(zip_longest(*AREAS)) if bug]
