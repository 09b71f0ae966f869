"""Language models. Nothing of a provider's library crosses this room's border: see `base`."""
