"""Personal data and secrets are taken out, honest text is left alone, and no text makes that slow."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordari.errors import InvalidInput
from recordari.privacy.rules.findings import DataType
from recordari.privacy.rules.masking import HIDDEN, PrivacyPolicy, find, sanitise, sanitise_value

POLICY = PrivacyPolicy()
EVERYTHING = PrivacyPolicy.read({"default": "mask"})
DROP = PrivacyPolicy.read({"default": "drop"})
# Keys are put together here, so that no scanner takes this file for a leak.
GITHUB = "ghp_" + "F4ke" * 9
STRIPE = "sk_live_" + "F4ke" * 6
AWS = "AKIA" + "FAKE7FAKE2FAKE3A"
JWT = ".".join(["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJmYWtlIn0", "ZmFrZWZha2VmYWtl"])
PEM = "-----BEGIN {0}PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nTUlJZmFrZQ==\n-----END {0}PRIVATE KEY-----"


def masked(text: str, policy: PrivacyPolicy = POLICY) -> str:
    return sanitise(text, policy=policy).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ana.silva+x@mail.example.co.uk.", "write to [EMAIL]."),
        ("почта ivan@пример.рф", "почта [EMAIL]"),
        ("邮箱是zhang@example.cn谢谢", "邮箱是[EMAIL]谢谢"),
        ("call +44 20 7946 0958 now", "call [PHONE] now"),
        ("(415) 555-0132 or 020 7946 0958", "[PHONE] or [PHONE]"),
        ("call me at 4155550132", "call me at [PHONE]"),
        ("tel ٠٢٠ ٧٩٤٦ ٠٩٥٨", "tel [PHONE]"),
        ("amex 3782 822463 10005", "amex [CREDIT_CARD]"),
        ("card ４０１２８８８８８８８８１８８１", "card [CREDIT_CARD]"),
        ("IBAN DE89 3704 0044 0532 0130 00 please", "IBAN [IBAN] please"),
        ("ssn 078-05-1120", "ssn [US_SSN]"),
        ("codice fiscale RSSMRA85T10A562S", "codice fiscale [NATIONAL_ID]"),
        ("CPF 529.982.247-25", "CPF [NATIONAL_ID]"),
        ("身份证号 11010519491231002X", "身份证号 [NATIONAL_ID]"),
        ("Passport No. L898902C3", "Passport No. [NATIONAL_ID]"),
        ("driver's license D1234567", "driver's license [NATIONAL_ID]"),
        ("seen from 93.184.216.34 and 2606:4700:4700::1111", "seen from [IP_ADDRESS] and [IP_ADDRESS]"),
        ("device 00:1A:2B:3C:4D:5E", "device [MAC_ADDRESS]"),
        ("pay 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "pay [CRYPTO_WALLET]"),
    ],
)
def test_personal_data_is_masked_by_default(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"token {GITHUB}.", "token [SECRET]."),
        (f"key={AWS}", "key=[SECRET]"),
        (f"stripe {STRIPE}", "stripe [SECRET]"),
        (f"Authorization: Bearer {JWT}", "Authorization: Bearer [SECRET]"),
        (f"{PEM.format('RSA ')} keep", "[SECRET] keep"),
        (f"ghp_\u200b{GITHUB[4:]}", "[SECRET]"),
        ("postgresql://app:s3cr3t@db/prod", "postgresql://app:[SECRET]@db/prod"),
        ("my password is Winter24!x", "my password is [SECRET]"),
        ("the password for the router is blue42sky", "the password for the router is [SECRET]"),
        ("DB_PASSWORD=correcthorse", "DB_PASSWORD=[SECRET]"),
        ('{"password": "letmein please"}', '{"password": "[SECRET]"}'),
        ("Server=db;Password=P@ssw0rd!;Timeout=5", "Server=db;Password=[SECRET];Timeout=5"),
        ("api_key: 9f86d081884c7d65", "api_key: [SECRET]"),
        ("mi contraseña es gatito2020", "mi contraseña es [SECRET]"),
        ("密码是Abc12345", "密码是[SECRET]"),
    ],
)
def test_secrets_are_masked_by_default(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Lisbon in 2019 and pay 1,250.00 a month.",
        "id 550e8400-e29b-41d4-a716-446655440000 at 2024-06-11T15:30:22.123456Z",
        "upgrade from 11.2.0.1 to 11.2.0.2, see section 4.1.2.3",
        "router at 192.168.1.1, server on 127.0.0.1:5432",
        "Order 4155550198, ISBN 9783161484100, Ticket #20250115-0042",
        "forgot my password again; the password must contain 12 characters",
        "password = getpass.getpass(); token = request.headers['x']",
        "api_key=YOUR_API_KEY, password=${PASSWORD}, secret: <your secret>",
        "max_tokens=4096, token count: 8192, csrf token missing",
        "npm i lodash@4.17.21, git@github.com:org/repo.git, logo@2x.png",
        "Foo::Bar::baz() and a::b at 12:34:56",
        "sk-toggleable__content-container",
        "666-12-3456, 123-00-4567 and 4111111111111112 are not valid",
        "DE00 3704 0044 0532 0130 00",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "We live at 12 Main Street, and I was born on 3 May 1990.",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert sanitise(text, policy=POLICY).text == text


def test_what_was_taken_out_is_counted_by_type() -> None:
    cleaned = sanitise("a@example.com, b@example.com, card 4111 1111 1111 1111", policy=POLICY)
    assert cleaned.counts == {"email": 2, "credit_card": 1}


def test_a_policy_decides_for_each_type() -> None:
    policy = PrivacyPolicy.read({"email": "keep", "phone": "drop", "street_address": "mask", "birth_date": "mask"})
    text = "a@example.com +44 20 7946 0958 ssn 078-05-1120, 12 Main Street, born on 3 May 1990"
    assert masked(text, policy) == "a@example.com  ssn [US_SSN], [STREET_ADDRESS], born on [BIRTH_DATE]"


def test_a_policy_may_keep_everything_but_secrets_or_be_switched_off() -> None:
    text = f"a@example.com {GITHUB}\u202e"
    assert masked(text, PrivacyPolicy.read({"default": "keep", "secret": "mask"})) == "a@example.com [SECRET]"
    assert masked(text, PrivacyPolicy.read({"enabled": False})) == text


@pytest.mark.parametrize(
    "setting", ["mask", [], {"enabled": 1}, {"e-mail": "mask"}, {"email": "hide"}, {"default": None}]
)
def test_a_policy_that_cannot_be_read_is_refused(setting: object) -> None:
    with pytest.raises(InvalidInput):
        PrivacyPolicy.read(setting)


def test_the_name_of_a_value_makes_it_a_secret() -> None:
    value = {"user": "ana", "password": "sunflower", "nested": [{"client_secret": "aB3dE5gH7j"}], "token_count": "12"}
    cleaned, counts = sanitise_value(value, policy=POLICY)
    assert cleaned == {
        "user": "ana",
        "password": "[SECRET]",
        "nested": [{"client_secret": "[SECRET]"}],
        "token_count": "12",
    }
    assert counts == {"secret": 2}


def test_names_that_become_the_same_keep_both_values() -> None:
    cleaned, _ = sanitise_value({"a@example.com": 1, "b@example.com": 2}, policy=POLICY)
    assert sorted(cleaned.values()) == [1, 2]


def test_findings_count_hidden_characters_of_the_original() -> None:
    text = f"x\u200b {AWS[:7]}\u200b{AWS[7:]} y"
    (found,) = find(text)
    assert text[found.start : found.end] == f"{AWS[:7]}\u200b{AWS[7:]}"


@pytest.mark.parametrize(
    "text",
    [
        "👩‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈 ❤️ 1️⃣",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # Scotland
        "می‌خواهم",
        "क्‍ष श्री",
        "ക്‍",
        "שלום \u200fעולם (\u2067abc\u2069)",
        "葛\U000e0100城",
        "ภาษา\u200bไทย",
        "e\u0301cole STRASSE Straße",
    ],
)
def test_honest_writing_keeps_its_invisible_characters(text: str) -> None:
    assert sanitise(text, policy=POLICY) == sanitise(text, policy=PrivacyPolicy.read({"enabled": False}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hi" + "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all"), "hi"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("pay\u200bpal \u2066x\u2069", "paypal x"),
        ("x" + "".join(chr(0xE0100 + byte) for byte in b"secret"), "x"),
        ("\ufeffhello\u00ad", "hello"),
        ("❤\ufe0f\ufe0e\ufe01", "❤\ufe0f"),
    ],
)
def test_characters_that_hide_words_are_taken_out(text: str, expected: str) -> None:
    cleaned = sanitise(text, policy=POLICY)
    assert cleaned.text == expected
    assert cleaned.counts[HIDDEN] == len(text) - len(expected)


PIECES = st.sampled_from(
    [
        "a@example.com", "+44 20 7946 0958", "415-555-0132", "4111 1111 1111 1111", "passport ", "L898902C3", "ssn ",
        "536-22-8726", "my password is ", "password=", "Winter24!x", "token: ", GITHUB, "://u:", "p4ss@", "93.184.216.34",
        "\u200b", "\u200d", "👩", "ก", "\u202e", "א", "[EMAIL]", "[SECRET]", " ", "\n", ".", "-", "=", '"', "12", "0", "x",
        "born on ", "3 May 1990", "12 Main Street", "DE89370400440532013000", "İ", "ß",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=14).map("".join))


@given(TEXTS, st.sampled_from([POLICY, EVERYTHING, DROP]))
@settings(max_examples=400, deadline=None)
def test_a_second_time_changes_nothing_more(text: str, policy: PrivacyPolicy) -> None:
    once = sanitise(text, policy=policy)
    again = sanitise(once.text, policy=policy)
    assert (again.text, sum(again.counts.values())) == (once.text, 0)


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_findings_stand_in_the_text_in_order_and_apart(text: str) -> None:
    found = find(text)
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    assert all(one.end <= other.start for one, other in pairwise(found))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(JSON)
@settings(max_examples=100, deadline=None)
def test_any_json_value_keeps_its_shape(value: Any) -> None:
    cleaned, counts = sanitise_value(value, policy=POLICY)
    assert type(cleaned) is type(value)
    if isinstance(value, dict | list):
        assert len(cleaned) == len(value)
    if not counts:
        assert cleaned == value


@pytest.mark.parametrize(
    "piece",
    ["a", "1", "1 ", "12 34-", "QUJD", "2025-01-", "a@", "password=", "password: x ", "sk-", "-eyJ", "eyJaaaaaaaaaa.",
     "-----BEGIN PRIVATE KEY-----", "://a:", "a:", "00:11:", "1.1.1.", "+1 ", "07700 900123,", "4111 1111 1111 1111 ",
     "passport ", "\u200b", "👩\u200d", "１", "5 Main ", "bearer ", "DE89", "[SECRET]"],
)  # fmt: skip
def test_the_work_grows_with_the_length_and_not_faster(piece: str) -> None:
    """Four times the text takes about four times the work; what is quadratic would take sixteen times."""

    def cost(length: int) -> float:
        text = (piece * (length // len(piece) + 1))[:length]
        start = time.process_time()
        sanitise(text, policy=EVERYTHING)
        return time.process_time() - start

    cost(1_000)  # what is loaded at first use
    short = min(cost(15_000) for _ in range(2))
    long = min(cost(60_000) for _ in range(3))  # a machine under load makes some of them look long
    assert long < 10 * max(short, 0.004)


def test_every_type_has_its_own_mask() -> None:
    assert len({each.mask for each in DataType}) == len(DataType)
