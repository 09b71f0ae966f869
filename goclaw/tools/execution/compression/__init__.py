"""Shorter output of well-known commands, for models with small windows: one file per family of commands.

It works on texts only: it runs and stores nothing. Above: the tools that run commands. `shortening` finds the
family of a command. Unrecognised lines stay unchanged.
"""
