"""`goclaw sessions`: where transcripts are read from (`source`), and what is made of them for people and machines."""
