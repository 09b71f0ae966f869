"""Where commands run: contained, or not at all. See `base` for the seam and `select` for the choice of a tier."""
