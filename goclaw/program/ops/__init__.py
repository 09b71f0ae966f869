"""Programs other than the daemon: checks of an installation (`doctor`), backup and restore (`backup`)."""
