"""`goclaw registry`: looking into registries, fetching, publishing, and serving this gateway's own."""
