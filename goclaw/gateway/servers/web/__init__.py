"""The web page (`http.web`): its files, login of browsers, and the WebSocket that shows sessions live.

A browser that is logged in is a device: an access token with its secret as a cookie (`auth.tokens`). It reads and
changes everything else by `/api/v1`. The files of the page itself are in `goclaw/clients/web_ui`.
"""
