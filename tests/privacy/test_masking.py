"""Personal data and secrets are taken out, honest text is left alone, and no text makes that slow."""

from __future__ import annotations

import hashlib
import re
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordari.errors import InvalidInput
from recordari.privacy.rules.findings import DataType
from recordari.privacy.rules.masking import HIDDEN, PrivacyPolicy, Sanitised, find, sanitise, sanitise_value

POLICY = PrivacyPolicy()
EVERYTHING = PrivacyPolicy.read({"default": "mask"})
DROP = PrivacyPolicy.read({"default": "drop"})
# Keys are put together here, so that no scanner takes this file for a leak.
GITHUB = "ghp_" + "F4ke" * 9
STRIPE = "sk_live_" + "F4ke" * 6
AWS = "AKIA" + "FAKE7FAKE2FAKE3A"
JWT = ".".join(["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJmYWtlIn0", "ZmFrZWZha2VmYWtl"])
TELEGRAM = "7312445908:" + "AAHk3v9zXq_L2mNc8-RtYb1uOpQwErTyUiz"
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
        ("send doge to DH5yaieqoZN36fDVciNyRueRGvGLR3mr7L", "send doge to [CRYPTO_WALLET]"),
        ("driving licence: SMITH 902128 AB9CD", "driving licence: [NATIONAL_ID]"),
        ("Ausweisnummer: L01X00T471, voter ID XYZ7654321", "Ausweisnummer: [NATIONAL_ID], voter ID [NATIONAL_ID]"),
        ("Appelez le 0033 1 42 68 53 00 demain", "Appelez le [PHONE] demain"),
        ("00 33 6 12 34 56 78 or 0033142685300", "[PHONE] or [PHONE]"),
        ("from 00-1-212-555-0147 again", "from [PHONE] again"),
        ("ping ::ffff:192.0.2.128 fails", "ping [IP_ADDRESS] fails"),
        ("64:ff9b::192.0.2.33, fe80::1%eth0 and 2001:db8:abcd::/48", "[IP_ADDRESS], [IP_ADDRESS] and [IP_ADDRESS]"),
        ("[fd12:3456:789a:1::1]:443 and FE80::0202:B3FF:FE1E:8329.", "[[IP_ADDRESS]]:443 and [IP_ADDRESS]."),
        (
            "router at 192.168.1.1, ssh pi@10.0.4.17, 172.16.0.9",
            "router at [IP_ADDRESS], ssh pi@[IP_ADDRESS], [IP_ADDRESS]",
        ),
        ("my social is 536904399, ask for it", "my social is [US_SSN], ask for it"),
        ("Ruf 0171/4455667 oder 030 - 90182066 an", "Ruf [PHONE] oder [PHONE] an"),
        ("mijn nieuwe nummer 06 12345678, tlf. 22 85 50 50", "mijn nieuwe nummer [PHONE], tlf. [PHONE]"),
        ("NINO QQ 12 34 56 C", "NINO [NATIONAL_ID]"),
        ("my ni number is jg103759a.", "my ni number is [NATIONAL_ID]."),
        ("用户@例子.公司 wrote", "[EMAIL] wrote"),
        ("ana (at) example [dot] com", "[EMAIL]"),
        ("EIN 12-3456789, HKID A123456(3)", "EIN [NATIONAL_ID], HKID [NATIONAL_ID]"),
        ("sort code 12-34-56, account number 12345678", "sort code [IBAN], account number [IBAN]"),
        ("acct # 123456789012, routing # 026009593", "acct # [IBAN], routing # [IBAN]"),
        ("src=10.0.0.7 dst=8.8.8.8 host=169.254.12.9", "src=[IP_ADDRESS] dst=[IP_ADDRESS] host=[IP_ADDRESS]"),
        ("mój PESEL to 85051512346, PPS number 1234567FA", "mój PESEL to [NATIONAL_ID], PPS number [NATIONAL_ID]"),
        ("my passport, number X1234567, expires", "my passport, number [NATIONAL_ID], expires"),
        ("UK NI QQ 12 34 56 C", "UK NI [NATIONAL_ID]"),
        ("тел: 8 (495) 123-45-67", "тел: [PHONE]"),
        ("zavolejte mi na 602 123 456", "zavolejte mi na [PHONE]"),
        ("(0)20 7946 0123 is our phone", "[PHONE] is our phone"),
        ("用户@例子.广告 wrote", "[EMAIL] wrote"),
        ("my e-mail is bob at example dot com", "my e-mail is [EMAIL]"),
        ("ask ana dot silva at mail dot example dot org", "ask [EMAIL]"),
        ("https://wa.me/5511987654321?text=x", "https://wa.me/[PHONE]?text=x"),
        ("contact no. 98200 45512, contact: 98200 45512", "contact no. [PHONE], contact: [PHONE]"),
        ("help line 1-800-275-2273", "help line [PHONE]"),
        ("κινητό 6944 123456, جوال 0501234567", "κινητό [PHONE], جوال [PHONE]"),
        ("the social is 212 09 8765", "the social is [US_SSN]"),
        ("passport GB 533380006, residence card ZR1234567", "passport GB [NATIONAL_ID], residence card [NATIONAL_ID]"),
        ("hwaddr: B827EB123456", "hwaddr: [MAC_ADDRESS]"),
        (
            "CVC 119, the security code on the back 482",
            "CVC [CREDIT_CARD], the security code on the back [CREDIT_CARD]",
        ),
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
        (f"bot {TELEGRAM} runs", "bot [SECRET] runs"),
        ("Das Kennwort ist Kaffee!Tasse7", "Das Kennwort ist [SECRET]"),
        (
            "het wachtwoord is Fiets#2030, lösenordet är Sommar!2031",
            "het wachtwoord is [SECRET], lösenordet är [SECRET]",
        ),
        ("la password è Gelato-88! e il codice no", "la password è [SECRET] e il codice no"),
        ("the wifi key is blue-Harbor-77x", "the wifi key is [SECRET]"),
        (f"https://api.telegram.org/bot{TELEGRAM}/getMe", "https://api.telegram.org/[SECRET]/getMe"),
        ("curl -u ana:S3cretPass! https://x.test", "curl -u [SECRET] https://x.test"),
        ("curl -sSu 'ana:S3cretPass!' https://x.test", "curl -sSu '[SECRET]' https://x.test"),
        ("curl https://x.test --user ana:hunter2-xyz -v", "curl https://x.test --user [SECRET] -v"),
        ("mysql -uroot -pSup3rSecret shop", "mysql -uroot -p[SECRET] shop"),
        ("sshpass -p Gr8Gate!9 ssh root@host", "sshpass -p [SECRET] ssh root@host"),
        ("docker login -u ci -p dckr9f8e7d registry.test", "docker login -u ci -p [SECRET] registry.test"),
        ("redis-cli -a r3disP4ss ping", "redis-cli -a [SECRET] ping"),
        ("smbclient //srv/share -U corp/jdoe%Winter2024!", "smbclient //srv/share -U [SECRET]"),
        ("use secret 9f8a7b6c5d4e3f2a1b0c now", "use secret [SECRET] now"),
        ("my secret kV3xP9qLw2Zr8TnB works", "my secret [SECRET] works"),
        ("the token tk_4f9s8d7f6g5h4j3k2l1 expired", "the token [SECRET] expired"),
        ("your verification code is 482913, thanks", "your verification code is [SECRET], thanks"),
        ("backup code 7f3k-9x2m-q8w1", "backup code [SECRET]"),
        ("db.test:5432:shop:app:pgPass99x", "db.test:5432:shop:app:[SECRET]"),
        ("define('DB_PASSWORD', 'w0rdPr3ss!');", "define('DB_PASSWORD', '[SECRET]');"),
        ("jdbc:oracle:thin:scott/tig3rX9@db:1521:x", "jdbc:oracle:thin:scott/[SECRET]@db:1521:x"),
        ('{"auth": "YWRtaW46c3VwZXJzZWNyZXQ="}', '{"auth": "[SECRET]"}'),
        ("login admin / Adm1n!2024", "login admin / [SECRET]"),
        ("Cookie: theme=dark; sid=f3b1c2d4e5f60718293a4b5c", "Cookie: theme=dark; sid=[SECRET]"),
        ("The wifi password at the cabin is moosehead41.", "The wifi password at the cabin is [SECRET]."),
        ("A senha do wifi é girassol2031", "A senha do wifi é [SECRET]"),
        ("my netflix password is still Blaubeer3.", "my netflix password is still [SECRET]."),
        ("basic auth is admin / Qu4rtz!lamp", "basic auth is admin / [SECRET]"),
        ("pw Xk2!vvPlm9 for the NAS", "pw [SECRET] for the NAS"),
        ("the pin for the app is 7719, SIM PUK 48219035", "the pin for the app is [SECRET], SIM PUK [SECRET]"),
        (
            "Your Uber code: 4417. G-582913 is your login code",
            "Your Uber code: [SECRET]. G-[SECRET] is your login code",
        ),
        ('<add key="password" value="Wal-Nuss77"/>', '<add key="password" value="[SECRET]"/>'),
        ('the passphrase "correct horse battery staple"', 'the passphrase "[SECRET]"'),
        ("my secret TnfUisT6fDxdbyLEoCgc works", "my secret [SECRET] works"),
        ("set the token to 3rDDpSBQTWnVrxUBNIvxqXLsJh8cP9", "set the token to [SECRET]"),
        ("<password>hunter2-Blue!9</password>", "<password>[SECRET]</password>"),
        ("requirepass h0ZvvVqGcYIJFnpXT9", "requirepass [SECRET]"),
        ("set :password, 'hunter2-Blue!9'", "set :password, '[SECRET]'"),
        ("SIGNING_SECRET: !!str krNiEp3dGuuWxN5vYGlE", "SIGNING_SECRET: !!str [SECRET]"),
        ("secret_key = b'mRP4hvw7qBDbNZmDVxI7zHYY'", "secret_key = b'[SECRET]'"),
        ('api_token { value = "a3eGxZwJrAozsfRkF2jp" }', 'api_token { value = "[SECRET]" }'),
        ("'db_pass' => 'qW8#xx_12pp'", "'db_pass' => '[SECRET]'"),
        ("my password's Zebra!Lamp77", "my password's [SECRET]"),
        ("username bo password mango42tree", "username bo password [SECRET]"),
        ("log in with bo / qW8#xx_12pp", "log in with bo / [SECRET]"),
        ("ALTER USER bo IDENTIFIED BY 'qW8#xx_12pp'", "ALTER USER bo IDENTIFIED BY '[SECRET]'"),
        ("openssl enc -k qW8#xx_12pp -in f", "openssl enc -k [SECRET] -in f"),
        ("echo 'qW8#xx_12pp' | sudo -S ls", "echo '[SECRET]' | sudo -S ls"),
        ("https://d2715bd8a28f7d134bb8831b5bd5a03d@o1.test/6", "https://[SECRET]@o1.test/6"),
        ("the new password will be Otter#Pond31", "the new password will be [SECRET]"),
        ("try Otter#Pond31 as the password", "try [SECRET] as the password"),
        ("Password (root): vT9_kk!Lm2", "Password (root): [SECRET]"),
        ("creds bo:vT9_kk!Lm2", "creds bo:[SECRET]"),
        ("el PIN es 5521, der Code für die Tür ist 3390", "el PIN es [SECRET], der Code für die Tür ist [SECRET]"),
        ("enter 739 204 as verification code", "enter [SECRET] as verification code"),
        ("Your code is 882041. Do not share it.", "Your code is [SECRET]. Do not share it."),
        (f"{AWS} / {'8pYohkmsQu' * 4}", "[SECRET] / [SECRET]"),
        ("Das Passwort fürs Netz lautet Kaffee!Tasse7", "Das Passwort fürs Netz lautet [SECRET]"),
        ("la contraseña del wifi en casa es gatito2020", "la contraseña del wifi en casa es [SECRET]"),
        ("пароль от почты Zebra!Lamp77", "пароль от почты [SECRET]"),
        ('getenv("DB_PASS", "w0rdPr3ss!")', 'getenv("DB_PASS", "[SECRET]")'),
        ("Zugangscode Haustür: 8090#, Türcode ist 1947", "Zugangscode Haustür: [SECRET], Türcode ist [SECRET]"),
        ("ssh-keygen -t rsa -N 'qW8#xx_12pp' -f id", "ssh-keygen -t rsa -N '[SECRET]' -f id"),
        ("the safe combination is 31-07-22", "the safe combination is [SECRET]"),
        ("the code for the alarm is 4482, door code: 1947", "the code for the alarm is [SECRET], door code: [SECRET]"),
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
        "server on 127.0.0.1:5432, [::1]:80, 0.0.0.0 and 255.255.255.255",
        "python 3.12.0.1, Oracle 19.3.0.0, Chrome 10.0.1.2 and section 14.9.1.2",
        "dead::beef, cafe::bar, 1::2 and 10::30",
        "secret santa, the secret agent 007, secret Agent-007, secret meeting-2, token v1beta1, token ERC20",
        "curl -u user:password, curl -u $USER:$PASS x, curl -u <user>:<pass> y, sort -u a:b, mkdir -p src/app",
        "mysql -u root -p shop, docker run -p 8080:80 nginx, ssh -p 2222 host, scp -P 2222 a b",
        "my social life is quiet, the wifi key features are new, network code 0 means success",
        "Das Passwort ist abgelaufen; from 08 - 17 every day, score 03 - 11, 05 / 2026 was dry",
        "room 0033, floor 1, part number 0049-1234, ref 0033142685300, lotto 03 17 22 35 41 49",
        "QQ 12 bus to C, national insurance costs 12 34 56, route AB 12 to C",
        "error code 500123, the code is 12 lines long, your code is great, account number 12345678, 12-34-56",
        "password: required, token: string, secret: see vault, login admin page, x-request-id: 7f3c2a1b-9d8e-4f6a",
        "cus_9s6XKzkNRiz8i3, pi_3MtwBwLkdIwHu7ix28a3tqPa, V1StGXR8_Z5jdHi6B-myT, 01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "unix time 1700000000, 1700000000123 ms, 1234567890123 rows, price € 1.234.567,89",
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
        "your zip code is 10115, your discount code is 20242, and 404 is your status code",
        "the password in the form is required; the account manager / senior clerk signed it",
        "he was born 3 days before Christmas",
        "netmask 255.255.240.0, wildcard 0.0.0.255, pip install pkg==10.4.3.2 or pkg>=1.2.3.4",
        "secret AgentController2, secret TopSecretProject2026, set the token to null, requirepass is not set",
        "<password>secret</password>, <token>string</token>, set :password, required: true",
        "change the password to something longer; the password's length is 12; user bo forgot his password twice",
        "the code for the meeting is 12 lines long, the door code is new, the pps is 30",
        "your code is 100000 lines long; take this file as the password policy; the password will be changed soon",
        "look at example dot com, meet at noon dot on the dot, support for 1-8 devices, contact lens -2.25",
        "the password for the portal was changed twice; access code is required; a combination is 31-07-22",
        "mac and cheese 123456, social is the new search 2026, ether network 10, passport in 24 hours",
        "https://github.com/org/repo, https://maintainer@example-repository-host.test/x",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert sanitise(text, policy=POLICY).text == text


def test_what_was_taken_out_is_counted_by_type() -> None:
    cleaned = sanitise("a@example.com, b@example.com, card 4111 1111 1111 1111", policy=POLICY)
    assert cleaned.counts == {"email": 2, "credit_card": 1}


@given(st.lists(st.sampled_from(["a@example.com", "b@example.com", "+44 20 7946 0958", "pin is 4821"]), max_size=5))
def test_masks_tell_values_apart_and_are_never_masked_again(values: list[str]) -> None:
    def tag(value: str) -> str:
        return "".join("bcdfghjkmnpqrtvz"[byte % 16] for byte in hashlib.sha256(value.encode()).digest()[:5])

    once = sanitise(" and password ".join(values), policy=POLICY, tag=tag).text
    assert sanitise(once, policy=POLICY, tag=tag) == Sanitised(text=once, counts={})
    masks = re.findall(r"\[(?:EMAIL|PHONE) [a-z]{5}\]", once)
    assert len(set(masks)) == len({value for value in values if value != "pin is 4821"})
    assert ("[SECRET]" in once) == ("pin is 4821" in values)  # a code that can be tried out has no tag


def test_a_policy_decides_for_each_type() -> None:
    policy = PrivacyPolicy.read({"email": "keep", "phone": "drop", "street_address": "mask", "birth_date": "mask"})
    text = "a@example.com +44 20 7946 0958 ssn 078-05-1120, 12 Main Street, born on 3 May 1990"
    assert masked(text, policy) == "a@example.com  ssn [US_SSN], [STREET_ADDRESS], born on [BIRTH_DATE]"
    assert masked("née le 3 mai 1992, nato il 12/08/1975, geboren 7. Mai 1981", policy).count("[BIRTH_DATE]") == 3


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
    assert type(cleaned) is type(value) or (isinstance(value, int) and isinstance(cleaned, str))
    if isinstance(value, dict | list):
        assert len(cleaned) == len(value)
    if not counts:
        assert cleaned == value


@pytest.mark.parametrize(
    "piece",
    ["a", "1", "1 ", "12 34-", "QUJD", "2025-01-", "a@", "password=", "password: x ", "sk-", "-eyJ", "eyJaaaaaaaaaa.",
     "-----BEGIN PRIVATE KEY-----", "://a:", "a:", "00:11:", "1.1.1.", "+1 ", "07700 900123,", "4111 1111 1111 1111 ",
     "passport ", "\u200b", "👩\u200d", "１", "5 Main ", "bearer ", "DE89", "[SECRET]",
     "curl -u a:", "::", "0033 1 ", "secret a1b2 ", "cookie: a=", "login a / ", "a:11:b:c:", "a(at)b[dot]", "net use a "],
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
