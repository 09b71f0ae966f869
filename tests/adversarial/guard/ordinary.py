"""Forty ordinary tasks: what people of a family and developers ask for, and the calls with which a good model does it.

A task is done when its `done` holds: on the disk, in the chat, at the servers outside, in what calls came to. A
question on the way is answered with yes, and counts. To add one, add a record to one of the three lists.
"""

from tests.adversarial.guard.ordinary_home import AT_HOME
from tests.adversarial.guard.ordinary_reading import READING
from tests.adversarial.guard.ordinary_work import AT_WORK

LISTED = [*READING, *AT_HOME, *AT_WORK]
