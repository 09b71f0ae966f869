"""What is the public internet, and what only looks like it."""

import socket
from ipaddress import ip_address

import pytest

from goclaw.common.net.guard import is_within, parsed_address, refusal
from tests.tables import table


@pytest.mark.promise("P-url-guard")
@table(
    "text",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",  # noqa: S104  # nothing is bound
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.8",
        "192.0.2.1",
        "198.18.0.1",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2002:c0a8:101::",
        "2001:0:7f00:1:0:0:f5ff:fffe",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1%lo",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
    ],
)
def test_what_is_not_the_public_internet_is_refused_with_a_reason(text: str) -> None:
    assert refusal(ip_address(text))


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "93.184.215.14", "172.32.0.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_public_addresses_are_fine(text: str) -> None:
    assert refusal(ip_address(text)) == ""


def test_a_public_address_of_this_very_machine_is_this_machine() -> None:
    # What can be bound is ours. Stands in for a server's public address: no test machine has one.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
    assert refusal(ip_address("127.0.0.1")) == "this machine"


@pytest.mark.parametrize("text", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "", "1.2.3.4.5"])
def test_other_ways_of_writing_a_number_are_no_address(text: str) -> None:
    assert parsed_address(text) is None


@pytest.mark.parametrize(
    ("text", "network", "inside"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("::ffff:10.1.2.3", "10.0.0.0/8", True),
        ("11.0.0.1", "10.0.0.0/8", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost", False),
        ("fd00::5", "fd00::/8", True),
    ],
)
def test_an_address_lies_in_a_network(text: str, network: str, inside: bool) -> None:
    assert is_within(ip_address(text), network) is inside
