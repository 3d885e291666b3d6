"""The one check of hosts that a tenant names, and that webhooks and connected databases both use it."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.core.addresses import is_public, outgoing_address
from recordari.databases.targets import AllowedTargets, checked, read_target
from recordari.errors import Forbidden, InvalidInput
from recordari.events.webhooks import find_address

INSIDE_V4 = """127.0.0.1 127.8.9.10 10.0.0.8 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1
    100.127.255.254 0.0.0.0 0.1.2.3 192.0.0.1 192.0.0.170 192.0.2.7 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.4
    203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255""".split()
OUTSIDE_V4 = (
    "8.8.8.8 1.1.1.1 192.0.0.9 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.169.0.1 223.255.255.1".split()
)
INSIDE_V6 = """:: ::1 fe80::1 fe80::1%eth0 febf::1 fec0::1 feff::1 fc00::1 fd12:3456::1 ff02::1 ff0e::1 100::1 2001:db8::1
    3fff::1 3fff:fff::1 2001::1 2001:2::1 2001:10::1 2001:20::1 5f00::1 64:ff9b:1::1 64:ff9b:1:7f00:0:100:: 4000::1
    ::7f00:1 ::ffff:0:7f00:1 ::ffff:0:808:808 ::8.8.8.8""".split()
OUTSIDE_V6 = "2606:4700::1111 2a00:1450:4001::1 2001:4860:4860::8888 2620:fe::fe".split()


def carriers(inner: str) -> list[str]:
    """Every way to write an IPv4 address inside an IPv6 address that somebody on the way may take out again."""
    number = int(IPv4Address(inner))
    low = [0xFFFF << 32, 0x0064_FF9B << 96, 0, 0xFFFF << 48, 0x0064_FF9B_0001 << 80]
    isatap = [0x2606_4700 << 96 | interface << 32 for interface in (0x0000_5EFE, 0x0200_5EFE)]
    forms = [prefix | number for prefix in low + isatap]
    forms.append(0x2002 << 112 | number << 80 | 1)  # 6to4
    forms.append(0x2001_0000 << 96 | number << 64)  # Teredo, as its server
    forms.append(0x2001_0000 << 96 | 0x0808_0808 << 64 | number ^ 0xFFFF_FFFF)  # and as its client
    return [str(IPv6Address(form)) for form in forms]


@pytest.mark.parametrize("address", [*INSIDE_V4, *INSIDE_V6])
def test_a_special_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", [*OUTSIDE_V4, *OUTSIDE_V6, "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("inner", INSIDE_V4)
def test_a_private_address_inside_another_one_is_not_public(inner: str) -> None:
    public = [form for form in carriers(inner) if is_public(form)]
    assert not public


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_nothing_is_public_that_the_standard_library_calls_private(ip: IPv4Address | IPv6Address) -> None:
    if is_public(str(ip)) and getattr(ip, "ipv4_mapped", None) is None:
        assert not (ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_private or ip.is_unspecified)


SPELLINGS = """2130706433 0x7f000001 0x7f.0.0.1 0177.0.0.1 127.1 127.0.1 134744072 0x08080808 010.8.8.8 8.8 8.8.8.8.
    0x8.0x8.0x8.0x8 1.2.3 example.0x1 example.1""".split()


@pytest.mark.parametrize("host", SPELLINGS)
async def test_a_number_in_an_unusual_spelling_is_no_host(host: str) -> None:
    with pytest.raises(PermissionError):
        await outgoing_address(host, 443, allow_private=False)


DISGUISED = ["64:ff9b::127.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "fec0::1", "::ffff:10.0.0.1", "2002:7f00:1::1"]


@pytest.mark.parametrize("host", DISGUISED)
async def test_webhooks_and_databases_refuse_a_disguised_address(host: str) -> None:
    with pytest.raises(InvalidInput, match="must be public"):
        await find_address(f"https://[{host}]/hook", allow_private=False)
    for scheme in ("postgresql", "mysql"):
        with pytest.raises(Forbidden, match="private address"):
            await checked(read_target(f"{scheme}://u:p@[{host}]/shop"), AllowedTargets())


async def test_one_private_address_among_many_is_enough_to_refuse_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["8.8.8.8", "2606:4700::1111"]

    async def lookup(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, port)) for answer in answers]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
    assert await outgoing_address("db.example", 5432, allow_private=False) == "8.8.8.8"
    target = await checked(read_target("postgresql://u:p@db.example/shop"), AllowedTargets())
    assert target.connection["hostaddr"] == "8.8.8.8", "the connection goes to the address that was checked"
    answers.append("::ffff:0:10.1.2.3")
    with pytest.raises(PermissionError):
        await outgoing_address("db.example", 5432, allow_private=False)
