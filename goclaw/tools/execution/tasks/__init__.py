"""Background tasks: commands and agents that continue after the call that started them.

A command in the background lives in `room`, not in its turn: a row before it runs, its output in a file that `read`
opens for its owner, its end reported to the chat (`app.running`) and, with the next request, to the model
(`sessions.reminding`). A task that is `running` on disk when the daemon starts is lost: its processes died with
the previous daemon.
"""
