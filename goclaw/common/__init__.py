"""The parts that every room uses: events, time, settings, users and rights, files, the network, health, specs."""
