"""Language models. No type of a provider's library leaves this room: see `base`."""
