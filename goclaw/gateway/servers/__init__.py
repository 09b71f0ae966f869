"""The daemon's listeners: the Unix socket for clients of the same user, and HTTP and TCP for everything else.

Events are transient, rows are durable. For a client that follows a session the bus keeps the events that the client has
not acknowledged (`goclaw.common.core.bus`), so that after a broken connection it continues after its last event, by
number. After a restart of the daemon or a longer break the client reads the rows and the state of the running turn
(`GatewayPort.now`). Messages from clients have ids: the daemon answers a repeated message as it did the first time
(`serving.IdempotencyCache`, then the inbox).

A connection's rights are checked twice a second and before each frame: it is closed when its right, token or session
is gone.
"""
