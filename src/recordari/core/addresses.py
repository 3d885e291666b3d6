"""Where the server may connect to for a tenant: one check of every host that a tenant names.

A name is looked up, every address behind it must be public, and the connection goes to that address: the name could lead
somewhere else a moment later. The networks are written out, because the lists of the standard library differ from one
version of Python to the next.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# https://www.iana.org/assignments/iana-ipv4-special-registry
_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        """0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
        192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4""".split(),
    )
)
_ANYCAST_V4 = (IPv4Address("192.0.0.9"), IPv4Address("192.0.0.10"))  # the public ones of 192.0.0.0/24
# All that is public in IPv6 lies in one network; these parts of it are not: protocols (with Teredo), documentation.
_UNICAST = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(map(IPv6Network, "2001::/23 2001:db8::/32 3fff::/20".split()))
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
# `2130706433`, `0x7f.1` and `127.1` are addresses to some readers and names to others.
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?$")


async def outgoing_address(host: str, port: int, *, allow_private: bool) -> str:
    """The address to connect to for a host that a tenant names.

    `PermissionError` if any address of the host is not public, `LookupError` if it has none.
    """
    if not allow_private and not _is_plain(host):
        raise PermissionError
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise LookupError from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    if not addresses:
        raise LookupError
    if not allow_private and not all(map(is_public, addresses)):
        raise PermissionError
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether an address is outside this machine and outside every private or special network."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv4Address):
        return ip in _ANYCAST_V4 or not any(ip in network for network in _SPECIAL_V4)
    if ip in _MAPPED or ip in _NAT64:
        return is_public(str(IPv4Address(int(ip) & 0xFFFF_FFFF)))
    if ip.scope_id is not None or ip not in _UNICAST or any(ip in network for network in _SPECIAL_V6):
        return False
    return all(is_public(str(inner)) for inner in _carried(ip))


def _carried(ip: IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that a router would take out of a public IPv6 address: of 6to4 and of ISATAP."""
    if ip.sixtofour is not None:
        yield ip.sixtofour
    if (int(ip) >> 32) & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(int(ip) & 0xFFFF_FFFF)


def _is_plain(host: str) -> bool:
    """Whether everybody reads a host alike: an address in its usual form, or a name that is no number."""
    try:
        ip_address(host)
    except ValueError:
        return _ENDS_IN_NUMBER.search(host) is None and "%" not in host
    return True
