"""Every planted bug, the areas in turn, so that a run that is cut has seen something of each."""

from itertools import chain, zip_longest

from tests.mutations import approvals, commands, doors, files, outside, rights, talk
from tests.mutations.bug import Bug

AREAS = (files.BUGS, commands.BUGS, rights.BUGS, approvals.BUGS, doors.BUGS, outside.BUGS, talk.BUGS)
BUGS: list[Bug] = [bug for bug in chain.from_iterable(zip_longest(*AREAS)) if bug]
