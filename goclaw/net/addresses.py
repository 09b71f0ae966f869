"""Classification of addresses: the public internet, or reachable only from this machine or its network."""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address

METADATA = frozenset({ip_address("168.63.129.16")})
"""Services of a cloud for its own machines at addresses that look public (Azure's WireServer). The others are
link-local, private or shared, and refused as such: 169.254.169.254, fd00:ec2::254, 100.100.100.200."""
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))
"""IPv6 that stands for an IPv4 address in its last bits (RFC 6052, RFC 8215, RFC 4291 2.5.5.1)."""
_SPECIAL = tuple(
    ip_network(text)
    for text in (
        *("100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4"),
        *("100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10"),
    )
)
"""Of the registries of special purposes (RFC 6890, IANA), what some Python versions call global."""
_NAMES = {
    "loopback": "this machine",
    "link_local": "the local link, where clouds keep their metadata",
    "multicast": "many machines at once",
    "private": "a private network",
}


def parsed(text: str) -> Address | None:
    """Return the address of a host in its usual form; None for a name, and for every other notation of a number."""
    try:
        return ip_address(text.strip("[]"))
    except ValueError:
        return None


def refusal(address: Address) -> str:
    """Why an address is not the public internet, in words; empty when it is."""
    if isinstance(address, IPv6Address) and address.scope_id:
        return "one network of this machine"
    forms: list[Address] = list(_embedded(address))
    for form in forms or [address]:
        if form in METADATA:
            return "a cloud's own service for this machine"
        if form.is_unspecified:
            return _NAMES["loopback"]
        for kind, words in _NAMES.items():
            if getattr(form, f"is_{kind}"):
                return words
        if form.is_reserved or not form.is_global or any(form in network for network in _SPECIAL):
            return "no public address"
    return _NAMES["loopback"] if _is_own(address) else ""


def within(address: Address, network: str) -> bool:
    """Whether an address, or the IPv4 one that it stands for, lies in `network` (`10.0.0.0/8`, or a single address)."""
    try:
        wanted = ip_network(network, strict=False)
    except ValueError:
        return False
    return any(form in wanted for form in (address, *_embedded(address)))


def _embedded(address: Address) -> Iterator[IPv4Address]:
    """IPv4 addresses that an IPv6 one leads to, through the system itself or a translator on the way."""
    if not isinstance(address, IPv6Address):
        return
    if address.ipv4_mapped:
        yield address.ipv4_mapped
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if any(address in network for network in _TRANSLATED) and int(address) > 1:
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def _is_own(address: Address) -> bool:
    """Whether it is an address of this machine, public as it may look: only to those can a socket be bound."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
