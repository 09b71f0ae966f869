"""Web pages as text: fetched through the URL guard, converted to Markdown, cached for a while.

`base` has the port that tools use, `service` the implementation. A redirect is a request of its own and passes the
guard again. No connection is kept open between two calls. HTML is parsed in another process (`markdown_worker`), which
can be killed.
"""
