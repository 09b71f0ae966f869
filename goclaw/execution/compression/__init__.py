"""Shorter output of well-known commands, for models with small windows: families of commands with a form of output.

It works on texts only: it runs and stores nothing. Above: the tools that run commands. Unrecognised lines stay
unchanged.
"""
