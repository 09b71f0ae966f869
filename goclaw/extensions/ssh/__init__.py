"""The tool `ssh_exec`: commands on the hosts of `tools.ssh.hosts`."""
