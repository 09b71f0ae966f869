"""Reading (`source`) and formatting of transcripts for `goclaw sessions`."""
