"""The widgets of the terminal client; they do not depend on each other, `goclaw.clients.tui.app` connects them."""
