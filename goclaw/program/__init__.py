"""The program: its commands, the composition of the daemon, and operations (backup, upgrade, plugins, doctor)."""
