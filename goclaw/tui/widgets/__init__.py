"""What the terminal client is made of; each widget knows nothing of the others, `goclaw.tui.app` joins them."""
