"""The built-in tools, one file each. The catalogue names them; nothing else imports them."""
