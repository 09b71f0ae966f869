"""The network: the client for services that the operator configured, and the guard for addresses chosen by a model."""

from goclaw.common.net.client import CONNECT_TIMEOUT as CONNECT_TIMEOUT
from goclaw.common.net.client import IDLE_TIMEOUT as IDLE_TIMEOUT
from goclaw.common.net.client import LOOPBACK_ONLY as LOOPBACK_ONLY
from goclaw.common.net.client import check_reachable as check_reachable
from goclaw.common.net.client import is_loopback as is_loopback
from goclaw.common.net.client import open_client as open_client
from goclaw.common.net.guard import UrlGuard as UrlGuard
from goclaw.common.net.guard import UrlRefused as UrlRefused
from goclaw.common.net.guard import UrlUnreachable as UrlUnreachable
