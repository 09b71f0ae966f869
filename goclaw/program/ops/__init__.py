"""Programs beside the daemon: checks of an installation (`doctor`), backup and restore (`backup`)."""
