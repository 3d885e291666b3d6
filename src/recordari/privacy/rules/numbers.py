"""Numbers of a person or an account: cards, bank accounts, wallets, national ids.

Check digits are computed where a format has them, so that a random number hardly ever matches. Formats of plain digits
count only after a word that names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from importlib import import_module

from recordari.privacy.rules.findings import NOT_AFTER_WORD, NOT_BEFORE_WORD, DataType, Finding, PreparedText

_CARD = re.compile(
    NOT_AFTER_WORD + r"(?:\d{4}([ .-])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5}|\d{12,19})" + NOT_BEFORE_WORD
)
_CARD_WORDS = re.compile(r"card|visa\b|mastercard|amex|卡|karte|tarjeta|carte|cart[ãa]o|carta")
_CARD_CODE = re.compile(
    r"(?:\bcvv2?|\bcvc2?|card security code|security code on (?:the|its) back)\W{1,3}(?:is )?(\d{3,4})(?!\d)"
)
# Lengths of the account numbers of each country.
_IBAN_LENGTHS = {
    each[:2]: int(each[2:])
    for each in """AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20
    EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20
    LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25
    QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20
    YE30""".split()
}
_IBAN = re.compile(NOT_AFTER_WORD + r"[A-Za-z]{2}\d{2}(?=[ -]?[A-Za-z0-9])")
_WALLET = re.compile(
    NOT_AFTER_WORD
    + r"(?:0x[0-9a-fA-F]{40}|(?:bc1|BC1)[0-9A-Za-z]{11,71}|[1-9A-HJ-NP-Za-km-z]{26,35})"
    + NOT_BEFORE_WORD
)
_BASE_58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_SSN = re.compile(NOT_AFTER_WORD + r"(?!000|666|9)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}" + NOT_BEFORE_WORD)
_SSN_WORDS = re.compile(r"\bssn|social(?: security|:|\s*#|\s+(?:no|num)|(?: is| was)?[:,]? ?$)|社会保障号|社保")
_BARE_SSN = re.compile(
    r"(?:\bssn\b|social security|\b(?:my|your|his|her|their) social\b)[^\d\n]{1,24}"
    r"((?!000|666|9)\d{3}(?!00)\d{2}(?!0000)\d{4})" + NOT_BEFORE_WORD
)

# Formats whose shape and check digits are enough, by the module of python-stdnum that checks them.
_CHECKED = {
    module.replace(".", "_"): (shape, module)
    for shape, module in (
        (r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}", "fr.nir"),
        (r"[A-Za-z]{6}\d{2}[A-Za-z]\d{2}[A-Za-z]\d{3}[A-Za-z]", "it.codicefiscale"),
        (r"\d{8}-?[A-HJ-NP-TV-Z]", "es.dni"),
        (r"[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]", "es.nie"),
        (r"\d{3}\.\d{3}\.\d{3}-\d{2}", "br.cpf"),
        (r"[1-9]\d{5}(?:19|20)\d{9}[\dXx]", "cn.ric"),
        (r"756\.\d{4}\.\d{4}\.\d{2}", "ch.ssn"),
        (r"\d{6}[-+A]\d{3}[0-9A-FHJ-NPR-Y]", "fi.hetu"),
        (r"\d{6}-\d{7}", "kr.rrn"),
        (r"[A-Z]{4}\d{6}[HMX][A-Z]{5}[0-9A-Z]\d", "mx.curp"),
        (r"\d{1,2}\.\d{3}\.\d{3}-[\dkK]", "cl.rut"),
        (r"(?:20|23|24|27)-\d{8}-\d", "ar.cuit"),
        (r"\d{2}\.\d{2}\.\d{2}-\d{3}[.-]\d{2}", "be.nn"),
        (r"[2-9]\d{3} \d{4} \d{4}", "in_.aadhaar"),
        (r"[A-Z&]{4}\d{6}[A-Z0-9]{3}", "mx.rfc"),
    )
}
_CHECKED_SHAPES = re.compile(
    NOT_AFTER_WORD
    + "(?:"
    + "|".join(f"(?P<{name}>{shape})" for name, (shape, _) in _CHECKED.items())
    + ")"
    + NOT_BEFORE_WORD
)
_NINO = re.compile(
    NOT_AFTER_WORD
    + r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]"
    + NOT_BEFORE_WORD
)
_EIN = re.compile(r"\bein\b(?: (?:no|number|is))?[ :#.]{1,3}(\d{2}-\d{7})(?!\d)")
_HKID = re.compile(NOT_AFTER_WORD + r"[A-Z]{1,2}\d{6}\([0-9A]\)")
# A bank account without check digits is known by the number of its bank beside it.
_BANK = re.compile(
    r"(?:sort code|routing(?: number| no\.?)?|\baba\b)[ :#]{1,3}(?:is )?(\d{2}-\d{2}-\d{2}|\d{6}|\d{9})(?![\d-])"
)
_ACCOUNT = re.compile(r"acc(?:oun)?t(?: number| no\.?)?[ :#]{1,3}(?:is )?(\d{7,17})(?![\d-])")
_NRIC = re.compile(NOT_AFTER_WORD + r"[STFG]\d{7}[A-Z]" + NOT_BEFORE_WORD)
# Invalid prefixes too, where the words before say what it is: forms and examples use QQ.
_CALLED_NINO = re.compile(
    r"(?:\bnino\b|national insurance|\bni\b)[^\d\n]{0,16}?(?<![a-z])"
    r"([a-z]{2}[ -]?\d{2}[ -]?\d{2}[ -]?\d{2}[ -]?[a-d])(?![a-z0-9])"
)
_PAPER_NUMBER = re.compile(
    NOT_AFTER_WORD
    + r"(?:(?=[A-Z]{0,6}\d)[A-Z0-9](?:[ ./-]?[A-Z0-9]){5,20}|[A-Z9]{5} \d{6} [A-Z0-9]{5})"
    + NOT_BEFORE_WORD
)
_PAPERS = re.compile(
    r"(?:passport|passeport|reisepass|pasaporte|passaport[eo]|护照|護照|パスポート|driver'?s?'? licen[cs]e|driving licen[cs]e"
    r"|führerschein|permis de conduire|carnet de conducir|national id(?:entity)?|identity card|\bid card|identity number"
    r"|identification number|(?:personal)?ausweis(?:nummer|-?nr)?|residence permit|aufenthaltstitel|voter(?:'?s)? (?:id|card)"
    r"|permiso de residencia|permesso di soggiorno|titre de séjour|identity document"
    r"|dow(?:ód|odu|odem) osobist(?:y|ego|ym)|(?:resident|residence|green) card"
    r"|carte d'identité|tax(?:payer)? id|tax file number|steuer-?id|steuernummer"
    r"|steueridentifikationsnummer|sozialversicherungsnummer|\bsécu(?:rité sociale)?|social insurance|national insurance"
    r"|\bnhs|medicare|aadhaar|personnummer|fødselsnummer|codice fiscale|cédula|rodné číslo"
    r"|(?:south african|israeli|turkish|emirates|citizen|resident|government) id|kimlik|cpr-(?=nummer)"
    r"|身份证|身份證|マイナンバー|주민등록번호"
    r"|\b(?:ssn|sin|nino|nin|itin|tin|pan|bsn|pesel|cpf|cnpj|nif|nie|dni|curp|rut|cuit|cuil|nric|hkid|tfn|cpr|nir|egn|oib|amka|ppsn?|cnp|svnr"
    r"|jmbg|mykad|kennitala|isikukood|asmens kodas|personas kods|rijksregisternummer|numéro national))"
    r"(?:[\s:#=\"'(,]|(?:no|nr|num|number|nummer|numéro|numero|número|n[°º]|is|was|to|es|est|ist|lautet|jest|è|é|code|id|card|的|号码|号|是|為|为)(?![a-z])\.?)"
    r"{1,6}(?:(?:gb|uk|us|ie|de|fr|it|es|pt|nl|be|at|ch|pl|cz|se|no|dk|fi|in|cn|jp|kr|au|nz|ca|br|mx|za|ng|ke) )?$"
)


def numbers_in(text: PreparedText) -> Iterator[Finding]:
    """Find cards, accounts, wallets and ids, in no particular order."""
    for detector in (_cards, _ibans, _accounts, _wallets, _social_security, _national_ids):
        yield from detector(text)


def _cards(text: PreparedText) -> Iterator[Finding]:
    for match in text.numbers(_CARD, least=12):
        digits = re.sub(r"\D", "", match.group())
        if not 12 <= len(digits) <= 19 or not _luhn(digits) or text.is_part_of_longer(*match.span()):
            continue
        # Numbers of other lengths are usually ids, of which one in ten has the check digit of a card.
        if (_is_issued(digits) and 13 <= len(digits) <= 16) or _CARD_WORDS.search(text.before(match.start(), 30)):
            yield Finding(*match.span(), DataType.CREDIT_CARD)
    if text.mentions("cvv", "cvc", "security code"):
        for match in _CARD_CODE.finditer(text.lower):
            yield Finding(*match.span(1), DataType.CREDIT_CARD)


def _is_issued(digits: str) -> bool:
    """Return whether an issuer has cards with this prefix and length."""
    length, two, four = len(digits), int(digits[:2]), int(digits[:4])
    return (
        (digits[0] == "4" and length in {13, 16, 18, 19})
        or ((51 <= two <= 55 or 2221 <= four <= 2720) and length == 16)
        or (two in {34, 37} and length == 15)
        or ((two in {36, 38, 39} or 300 <= four // 10 <= 305 or four == 3095) and 14 <= length <= 19)
        or ((four == 6011 or two in {60, 62, 64, 65, 81, 82}) and length >= 16)
        or (3528 <= four <= 3589 and length >= 16)
        or (four in {1800, 2131} and length == 15)
        or (2200 <= four <= 2204 and length >= 16)
        or (two in {50, 56, 57, 58, 63, 67} and 12 <= length <= 19)
    )


def _luhn(digits: str) -> bool:
    values = (int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in values) % 10 == 0


def _ibans(text: PreparedText) -> Iterator[Finding]:
    for match in text.numbers(_IBAN):
        length = _IBAN_LENGTHS.get(match.group()[:2].upper())
        end = _compact_end(text.plain, match.start(), length) if length is not None else None
        if end is not None and _mod_97(text.plain[match.start() : end]):
            yield Finding(match.start(), end, DataType.IBAN)


def _accounts(text: PreparedText) -> Iterator[Finding]:
    if text.mentions("sort code", "routing", "aba") and text.mentions("acct", "account"):
        banks, accounts = list(_BANK.finditer(text.lower)), list(_ACCOUNT.finditer(text.lower))
        for match in (*banks, *accounts) if banks and accounts else ():
            yield Finding(*match.span(1), DataType.IBAN)


def _compact_end(text: str, start: int, length: int) -> int | None:
    """Return the end of `length` letters and digits with at most one space or dash between two; None if there are fewer."""
    match = re.compile(rf"[A-Za-z0-9](?:[ -]?[A-Za-z0-9]){{{length - 1}}}" + NOT_BEFORE_WORD).match(text, start)
    return match.end() if match is not None else None


def _mod_97(iban: str) -> bool:
    compact = re.sub(r"[ -]", "", iban).upper()
    return int("".join(str(int(sign, 36)) for sign in compact[4:] + compact[:4])) % 97 == 1


def _wallets(text: PreparedText) -> Iterator[Finding]:
    for match in _WALLET.finditer(text.plain):
        # Not all Ethereum addresses have check digits; forty hexadecimal digits are enough.
        wallet = match.group()
        is_long = wallet.lower().startswith("bc1") and _is_valid("bitcoin", wallet)
        if wallet.startswith("0x") or is_long or _has_wallet_check(wallet):
            yield Finding(*match.span(), DataType.CRYPTO_WALLET)


def _has_wallet_check(wallet: str) -> bool:
    """Check the last four bytes of an address in base 58, of whichever coin: 25 bytes, hashed twice."""
    if not 26 <= len(wallet) <= 35 or not (any(map(str.isdigit, wallet)) and any(map(str.isupper, wallet))):
        return False
    number = 0
    for sign in wallet:
        digit = _BASE_58.find(sign)
        if digit < 0:
            return False
        number = number * 58 + digit
    if number >= 1 << 200:
        return False
    raw = number.to_bytes(25, "big")
    return sha256(sha256(raw[:21]).digest()).digest()[:4] == raw[21:]


def _social_security(text: PreparedText) -> Iterator[Finding]:
    for match in text.numbers(_SSN, least=9):
        is_ssn = match[1] == "-" or _SSN_WORDS.search(text.before(match.start(), 40))
        if is_ssn and not text.is_part_of_longer(*match.span()):
            yield Finding(*match.span(), DataType.US_SSN)
    if text.mentions("ssn", "social "):
        for match in _BARE_SSN.finditer(text.lower):
            yield Finding(*match.span(1), DataType.US_SSN)


def _national_ids(text: PreparedText) -> Iterator[Finding]:
    for match in text.numbers(_CHECKED_SHAPES, least=6):
        assert match.lastgroup is not None
        if not text.is_part_of_longer(*match.span()) and _is_valid(_CHECKED[match.lastgroup][1], match.group()):
            yield Finding(*match.span(), DataType.NATIONAL_ID)
    for match in text.numbers(_NINO, least=6):
        yield Finding(*match.span(), DataType.NATIONAL_ID)
    if text.mentions("nino", "national insurance", "ni "):
        for match in _CALLED_NINO.finditer(text.lower):
            yield Finding(*match.span(1), DataType.NATIONAL_ID)
    if text.mentions("ein"):
        for match in _EIN.finditer(text.lower):
            yield Finding(*match.span(1), DataType.NATIONAL_ID)
    for match in text.numbers(_HKID, least=6):
        yield Finding(*match.span(), DataType.NATIONAL_ID)
    for match in text.numbers(_NRIC, least=7):
        if _has_nric_letter(match.group()):
            yield Finding(*match.span(), DataType.NATIONAL_ID)
    for match in text.numbers(_PAPER_NUMBER):
        number = match.group()
        if sum(map(str.isdigit, number)) < 4 or re.fullmatch(r"(?:19|20)\d\d(?:[-/. ]\d\d?){0,2}", number):
            continue
        if _PAPERS.search(text.before(match.start(), 60)):
            yield Finding(*match.span(), DataType.NATIONAL_ID)


def _has_nric_letter(number: str) -> bool:
    """Check the last letter of a Singapore identity number."""
    total = sum(int(digit) * weight for digit, weight in zip(number[1:8], (2, 7, 6, 5, 4, 3, 2), strict=True))
    total += 4 if number[0] in "TG" else 0
    return ("JZIHGFEDCBA" if number[0] in "ST" else "XWUTRQPNMLK")[total % 11] == number[8]


def _is_valid(module: str, number: str) -> bool:
    """Check a number with python-stdnum, whose modules are loaded on first use."""
    return bool(import_module(f"stdnum.{module}").is_valid(number))
