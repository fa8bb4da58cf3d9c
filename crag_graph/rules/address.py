"""Which network addresses a page may be fetched from: those that the whole world can reach, and no other.

A web page may link to anything, this machine and its neighbours included, whose answers are nobody else's business.
Refused are private, loopback, link-local, multicast, reserved, documentation and unspecified addresses. An IPv4 address
inside an IPv6 one (mapped, or translated by NAT64) counts as itself; the older tunnels (6to4, Teredo) are refused.

>>> is_public("93.184.215.14"), is_public("2606:4700::1111")
(True, True)
>>> [is_public(a) for a in ("127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "fe80::1%eth0")]
[False, False, False, False, False]
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_GLOBAL_V6 = ip_network("2000::/3")  # the only part of IPv6 that is given out
_NAT64 = ip_network("64:ff9b::/96")
_REFUSED = [
    ip_network(network)
    for network in (
        *("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32"),  # protocols, old relays, the host of a cloud machine
        *("2001::/23", "2002::/16", "3fff::/20"),  # protocols and Teredo, 6to4, documentation
    )
]


def is_public(address: str) -> bool:
    """Return whether a numeric address belongs to the public internet; text that is no address does not."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address):
        ip = _inner(ip)
    if isinstance(ip, IPv6Address) and ip not in _GLOBAL_V6:
        return False
    refused = any(ip in network for network in _REFUSED)
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or refused)


def _inner(ip: IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, where it stands for one."""
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip
