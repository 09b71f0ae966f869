"""The benchmarks of replicas on one Postgres that writes each commit to the disk, beside SQLite in the same run."""
