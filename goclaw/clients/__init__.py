"""The programs that people look at: the terminal client and the web page."""
