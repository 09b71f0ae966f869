"""What GoClaw costs: time, memory, throughput. See README.md."""
