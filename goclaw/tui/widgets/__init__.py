"""The widgets of the terminal client; they do not depend on each other, `goclaw.tui.app` connects them."""
