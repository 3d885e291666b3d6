"""Contact data: e-mail and telephone, addresses of machines and of houses; and dates of birth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network

from recordari.privacy.rules.findings import NOT_AFTER_WORD, NOT_BEFORE_WORD, DataType, Finding, PreparedText

# Letters of addresses; Chinese, Japanese and Thai text runs into an address without a space.
_LETTER = "A-Za-z0-9\u00c0-\u024f\u0370-\u052f\u0590-\u05ff\u0620-\u064a\u0900-\u097f\u1e00-\u1fff"
_LOCAL_REVERSED = re.compile(f"[{_LETTER}._%+'!#$&*/?^`{{|}}~-]{{1,64}}")
_VERP_REVERSED = re.compile(r"=[A-Za-z0-9._+-]{0,40}\d[A-Za-z0-9._+-]{0,40}")
_DOMAIN = re.compile(
    f"@((?:[{_LETTER}](?:[{_LETTER}-]{{0,62}})\\.){{1,8}}(?:[A-Za-z\u00c0-\u024f\u0370-\u052f\u0900-\u097f]{{2,24}}|xn--[a-z0-9-]{{2,59}}))"
    r"(?![A-Za-z0-9_])"
)
# An address in Chinese, Japanese or Korean is known by its top-level domain, or by the end of the word; the text before it
# may run into it.
_EAST = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_EASTERN_EMAIL = re.compile(
    f"[{_EAST}A-Za-z0-9._+-]{{1,16}}@[{_EAST}A-Za-z0-9-]{{1,30}}\\.(?:中国|中國|公司|网络|網絡|网址|在线|中文网|集团|香港|台湾|台灣|新加坡|世界"
    f"|한국|みんな|コム|닷컴|[{_EAST}]{{2,4}}(?![{_EAST}]))(?![A-Za-z0-9_])"
)
_SPELT_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}\s?[\[({]\s?at\s?[\])}]\s?[\w-]{1,63}(?:(?:\.|\s?[\[({]\s?dot\s?[\])}]\s?)[\w-]{2,63}){1,4}"
)
# "bob at example dot com": after a word for mail, or when the name looks like no word of a sentence.
_SPOKEN_EMAIL = re.compile(
    r"(?P<mail>\b(?:e-?mail|mailto|mail|write to|reach (?:me|us|him|her|them))\b[^\n@]{0,24}?\s)?"
    r"(?<![\w.+-])(?P<value>(?P<local>[\w.+-]{1,40}(?: (?:dot|underscore|dash) [\w+-]{1,40}){0,3}) at "
    r"[\w-]{1,40}(?: dot [\w-]{1,40}){0,3} dot [a-z]{2,10})\b"
)
_FILE_ENDINGS = frozenset(
    "png jpg jpeg gif svg webp pdf css js mjs json html htm xml txt yaml yml toml lock tsx jsx exe dll csv gz".split()
)

_MAC = re.compile(
    r"(?<![A-Za-z0-9:-])(?:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}"
    r"|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4})(?![A-Za-z0-9]|[:.-][A-Za-z0-9])"
)
_CALLED_MAC = re.compile(
    r"(?:\bmac(?:[ _-]?addr(?:ess)?)?|dhcp-host|hw_?addr|\bether|bssid)(?: (?:is|of))?[\W_]{1,3}([0-9a-f]{12})(?![0-9a-z])"
)
_IPV4 = re.compile(
    r"(?<![A-Za-z0-9_.])(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}"
    r"(?![A-Za-z0-9_]|\.\d|-[A-Za-z])"
)
# Every form: shortened at the beginning, with an IPv4 address at the end, with a zone or the length of a prefix.
_IPV6 = re.compile(
    r"(?<![A-Za-z0-9:.])(?P<address>(?:[0-9A-Fa-f]{0,4}:){2,8}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{1,4})?)"
    r"(?P<rest>(?:%[A-Za-z0-9_.-]{1,20})?(?:/\d{1,3})?)(?![A-Za-z0-9:]|\.\d)"
)
_NOT_AN_ADDRESS = re.compile(
    r"version|\bver\b|release|section|chapter|clause|article|paragraph|figure|§|upgrad|downgrad|\bbuild|firmware|driver"
    r"|\bv\.?$|(?:[<>~^]|[<>=~^!]=) ?$"
    r"|\b(?:windows|macos|ios|android|chrome|firefox|safari|edge|java|jdk|oracle|office|kernel|sdk) $"
)
_NETWORK = re.compile(r"\bip|addr|server|host|ping|\bdns|from|port|client|login|log(?:ged)? in|ssh|router|gateway")

_PHONE = re.compile(
    r"(?<![A-Za-z0-9])(?:00[ -]?[1-9](?:[ .()/-]{0,3}\d){6,14}|\+\(?\d{1,4}\)?(?:[ .()/-]{0,3}\d){5,14}"
    r"|\(?\d{1,5}\)?(?:[ .()/-]{1,3}\d{2,8}){1,6}|\d{7,15})(?:(?: ?x| ext\.?) ?\d{1,6})?(?![A-Za-z0-9])"
)
_NANP = re.compile(r"(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}")
_TOLL_FREE = re.compile(r"1[ .-]\(?8(?:00|33|44|55|66|77|88)\)?[ .-]\d{3}[ .-]\d{4}")
_ABROAD = re.compile(r"00[ -]?[1-9](?:[ .()/-]{0,3}\d){6,14}")
_TRUNK = re.compile(r"\(?0[1-9]\d{0,4}\)?(?:[ ./-]{1,3}\d{2,8}){1,5}")
_AREA = re.compile(r"\(\d{2,5}\) ?\d{3,5}[ -]?\d{3,4}(?:[ -]?\d{1,4})?")
_DATE_LIKE = re.compile(
    r"(?:19|20)\d\d[ ./-]\d{1,2}[ ./-]\d{1,2}.{0,20}|\d{1,2}[ ./-]\d{1,2}[ ./-](?:19|20)\d\d.{0,20}|(?:19|20)\d{6}.{0,20}"
    r"|(?:19|20)\d\d ?[-/.] ?(?:19|20)\d\d"
)
_PHONE_WORDS = re.compile(
    r"phone|mobile|cell\b|\btel\b|tel[.:]|\bfax|whats ?app|\bsms\b|hotline|\bdial|handy\b|telefon|mobil|rufnummer|t[ée]l[ée]ph"
    r"|\bwa\.me/$|\bcontact(?: (?:no|nr|num|number))?[.:]{0,2} ?$"
    r"|portable|tel[ée]fono|móvil|celular|cellulare|телефон|тел[.:]|电话|電話|手机|手機|携帯|전화|फोन|هاتف|טלפון"
    r"|\b(?:desk|office|home|work):|answering at|(?:my|his|her|their|contact|call|reach|ring|text)\s(?:\w{1,10}\s){0,2}number"
    r"|\btlf\b|\bgsm\b|\bnumer do\b|جوال|موبايل|мобильн|κινητ|τηλ[.έ:]"
    r"|\b(?:meine|mi|mon|il mio|o meu|mijn|mój|mitt|mit)\s(?:\w{1,10}\s)?(?:nummer|n[úu]m[eé]ro|numer)\b"
    r"|\b(?:zavolej|zadzwo|llám|llama|chiama|appele|ligar|ligue|ring mig|позвон)"
    r"|\b(?:call|ring|reach|text|phone)(?: (?:me|us|him|her|them))?(?: (?:at|on|under))?:? ?$"
)
_NOT_A_PHONE = re.compile(
    r"(?:order|invoice|ticket|case|ref(?:erence)?|\bid|account|serial|sku|part|isbn|issn|tracking|item|version|build|model"
    r"|port|isin|vin|asset|number of|score|ratio|room|page|line|chapter|section|\bpr|issue|commit|iban|card|ssn|lat|long?)s?"
    r"(?: (?:no|number|nr|id|is|was))?[.:#]? ?[#(]?$|[#$€£¥%]$"
)
_PHONE_LABEL = re.compile(
    r"[ (-]{1,2}(?:is (?:my|our|his|her|their|the) )?"
    r"(?:office|fax|mobile|cell|home|work|desk|phone|tel)(?![a-z])"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_EXTENSION = re.compile(r"(?: ?x| ext\.?) ?\d{1,6}$")
_REGIONS = ("GB", "DE", "FR", "IT", "ES", "NL", "CH", "AU", "ZA", "JP", "SE", "BR", "IN", "KR", "PL", "BE", "CN")
MAX_LOOKED_UP = 200  # numbers of one text that are looked up; for further ones the shape decides

_STREET_TYPE = (
    "Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Place|Pl|Terrace|Square|Sq|Highway|Hwy|Parkway"
    "|Pkwy|Circle|Cir|Crescent|Cres|Close|Row|Mews|Trail|Way"
)
_NAME_WORD = "[A-Z\u00c0-\u00de][\\w'’.-]{0,30}"
_ENGLISH_STREET = (
    rf"\d{{1,6}}[A-Za-z]?,? (?:{_NAME_WORD} |\d{{1,3}}(?:st|nd|rd|th) ){{1,4}}(?:{_STREET_TYPE})\b\.?"
    r"(?:,? (?:Apt|Apartment|Suite|Unit|Ste|Flat|Floor|#)\.? ?\w{1,6})?(?:, [A-Z][\w .'-]{1,30}){0,2}"
    r"(?:,? [A-Z]{2} \d{5}(?:-\d{4})?)?|P\.? ?O\.? Box \d{1,7}"
)
_OTHER_STREET = (
    rf"{_NAME_WORD}(?:stra(?:ß|ss)e|str\.|weg|platz|allee|gasse|straat|laan|vägen|gatan|vej|gade) \d{{1,4}} ?[a-z]?"
    rf"(?:, \d{{4,5}} {_NAME_WORD})?"
    r"|\d{1,4}(?: ?bis| ?ter)?,? (?:rue|avenue|boulevard|place|chemin|allée|impasse|quai|cours) (?:[\w'’-]{1,20} ){0,4}"
    rf"{_NAME_WORD}"
    r"|(?:Calle|Avenida|Av\.|Plaza|Paseo|Carrera|Rua|Via|Viale|Piazza|Corso) (?:[\w'’.-]{1,20} ){0,4}"
    rf"{_NAME_WORD},? (?:n[.°º]? ?)?\d{{1,5}}"
)
_STREET = re.compile(f"{NOT_AFTER_WORD}(?:{_ENGLISH_STREET}|{_OTHER_STREET}){NOT_BEFORE_WORD}")
_MONTH = (
    "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
    "|(?:jän|mär|mai|okt|dez|janv|fév|avr|juin|juil|aoû|déc|ene|abr|ago|set|dic|gen|mag|giu|lug|ott|fev|out|maart|mei|maj)"
    "[a-zà-ÿ]{0,7}"
)
_BIRTH_STEMS = (
    *(
        "born",
        "birth",
        "dob",
        "d.o.b",
        "geb",
        "naissance",
        "né",
        "naci",
        "nato il",
        "nata il",
        "nascita",
        "nasc",
        "født",
    ),
    *("fødsels", "född", "födelse", "urodz", "出生", "生日"),
)
_BORN = re.compile(
    r"(?:\bborn(?: on)?|date of birth|\bd\.?o\.?b\.?(?![a-z])|birth ?date|birthday(?: is| on|'s)?(?: on)?|geboren(?: am| op)?"
    r"|geburtsdatum|geboortedatum|née? le|date de naissance|nacid[oa] el|fecha de nacimiento|nat[oa] il|data di nascita"
    r"|nascid[oa] (?:em|a)|data de nascimento|født(?: den)?|fødselsdato|född(?: den)?|födelsedatum"
    r"|urodz(?:on[ya]|enia)|出生日期|出生于|生日)"
    r"(?:\s{0,2}[:=]| is| was| on|是)?\s{0,2}(?:on |the )?"
    r"((?:\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})|\d{4}[./年-]\d{1,2}[./月-]\d{1,2}日?"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|\.|º)? (?:of |de )?(?:{_MONTH})\.?(?:,? (?:de )?\d{{4}})?(?![a-zà-ÿ])"
    rf"|(?:{_MONTH})\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?)(?!\d))"
)


def emails_in(prepared: PreparedText) -> Iterator[Finding]:
    """Find e-mail addresses, outward from the @, so that a text without one costs nothing."""
    text = prepared.plain
    for match in _DOMAIN.finditer(text):
        at = match.start()
        if match[1].rpartition(".")[2].lower() in _FILE_ENDINGS:
            continue
        backwards = text[max(0, at - 160) : at][::-1]
        local = _LOCAL_REVERSED.match(backwards)
        if local is None:
            continue
        length = len(local.group().rstrip("'`{|*/#$&!?^~.-+"))
        if length == 0 or _is_login(text, at, length):
            continue
        if bounce := _VERP_REVERSED.match(backwards, length):
            length = bounce.end()
        yield Finding(at - length, match.end(), DataType.EMAIL)
    if prepared.mentions("at]", "at)", "at}"):
        for match in _SPELT_EMAIL.finditer(prepared.lower):
            yield Finding(*match.span(), DataType.EMAIL)
    if " dot " in prepared.lower:
        for match in _SPOKEN_EMAIL.finditer(prepared.lower):
            if match["mail"] or re.search(r"[\d._+]| (?:dot|underscore|dash) ", match["local"]):
                yield Finding(*match.span("value"), DataType.EMAIL)
    if not text.isascii():
        for match in _EASTERN_EMAIL.finditer(text):
            yield Finding(*match.span(), DataType.EMAIL)


def _is_login(text: str, at: int, length: int) -> bool:
    """Return whether the @ is part of the address of a repository, or of a server with a user."""
    start = at - length
    before = text[max(0, start - 80) : start]
    scheme = before.rfind("://")
    if scheme >= 0 and not re.search(r"[\s/,;<>\"']", before[scheme + 3 :]):
        return True
    return text[start:at].lower() == "git"


def machines_in(text: PreparedText) -> Iterator[Finding]:
    """Find hardware and network addresses, except those that are the same on every machine."""
    plain = text.plain
    has_signs = plain.count(":") > 4 or plain.count("-") > 4 or plain.count(".") > 1
    for match in _MAC.finditer(plain) if has_signs else ():
        is_number = match.group().replace("-", "").replace(".", "").isdigit()
        if not is_number or "mac" in text.before(match.start(), 30):
            yield Finding(*match.span(), DataType.MAC_ADDRESS)
    if text.mentions("mac", "dhcp-host", "hwaddr", "hw_addr", "ether", "bssid"):
        for match in _CALLED_MAC.finditer(text.lower):
            yield Finding(*match.span(1), DataType.MAC_ADDRESS)
    for match in text.numbers(_IPV4) if plain.count(".") > 2 else ():
        if _is_somewhere(IPv4Address(match.group())) and _reads_as_address(text, match):
            yield Finding(*match.span(), DataType.IP_ADDRESS)
    for match in _IPV6.finditer(plain) if plain.count(":") > 1 else ():
        # A colon at the end is the sentence's, unless it is the second of two.
        address = match["address"]
        spoken = address if address.endswith("::") else address.rstrip(":")
        if _reads_as_v6(spoken):
            end = match.end() if spoken == address else match.start() + len(spoken)
            yield Finding(match.start(), end, DataType.IP_ADDRESS)


def _is_somewhere(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address names one machine or network: not the machine itself, any, a group or a mask."""
    if isinstance(address, IPv4Address) and address.packed[0] in {0, 255}:
        return False
    return not (address.is_loopback or address.is_unspecified or address.is_multicast)


def _reads_as_address(text: PreparedText, match: re.Match[str]) -> bool:
    """Return whether four numbers are an address, and not a version or a section."""
    before = text.before(match.start(), 40)
    if _NOT_AN_ADDRESS.search(before) or _NOT_AN_ADDRESS.search(text.lower[match.end() : match.end() + 16]):
        return re.search(r"\bip\b|address", before) is not None
    octets = match.group().split(".")
    # Hardly any address has only small numbers, and most versions do; those of private networks begin with a ten.
    is_small = all(int(octet) < 32 for octet in octets) and len(set(octets)) > 1 and octets[0] != "10"
    return not is_small or _NETWORK.search(before) is not None


_KNOWN_NETWORKS = tuple(map(IPv6Network, ("2000::/3", "fc00::/7", "fe80::/10", "fec0::/10")))


def _reads_as_v6(text: str) -> bool:
    """Return whether it is an address, and not a name in a program (`a::b`) or a time."""
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return False
    if not _is_somewhere(address) or not any(map(str.isdigit, text)):
        return False
    inner = address.ipv4_mapped
    if inner is not None or "." in text:
        return inner is None or _is_somewhere(inner)
    if text.count(":") == 7 or text.lower().startswith("64:ff9b:"):
        return True
    return len(text.partition(":")[0]) == 4 and any(address in network for network in _KNOWN_NETWORKS)


def phones_in(text: PreparedText) -> Iterator[Finding]:
    """Find telephone numbers: international ones, national ones in their usual forms, others after a word for them."""
    budget = MAX_LOOKED_UP
    for match in text.numbers(_PHONE, least=7):
        number = match.group().rstrip(" .()/-")
        start, end = match.start(), match.start() + len(number)
        is_national = number[0] != "+"
        if not 7 <= sum(map(str.isdigit, number)) <= 20 or (is_national and _DATE_LIKE.fullmatch(number)):
            continue
        is_labelled = is_national and _is_called_phone(text, start, end)
        regions = _likely_regions(text, start, end) if is_national and not is_labelled else ()
        if regions is None:
            continue
        if is_labelled or budget <= 0 or _can_be_dialled(number, regions):
            yield Finding(start, end, DataType.PHONE)
        budget -= not is_labelled


def _is_called_phone(text: PreparedText, start: int, end: int) -> bool:
    # A short number without a gap is usually an amount, unless the word is right before it.
    reach = 36 if end - start >= 9 or not text.plain[start:end].isdigit() else 12
    if _PHONE_LABEL.match(text.lower, end) is None and _PHONE_WORDS.search(text.before(start, reach)) is None:
        return False
    return _THOUSANDS.fullmatch(text.plain, start, end) is None


def _likely_regions(text: PreparedText, start: int, end: int) -> tuple[str, ...] | None:
    """Return the regions of a number by its form: () for any; None if it is no telephone number."""
    number = _EXTENSION.sub("", text.plain[start:end])
    if text.is_part_of_longer(start, end):
        return None
    if _TOLL_FREE.fullmatch(number):
        return ("US",)
    if _NOT_A_PHONE.search(text.before(start, 36)):
        return None
    if _NANP.fullmatch(number):
        return ("US",)
    if _ABROAD.fullmatch(number):
        return ()
    if sum(map(str.isdigit, number)) >= 9 and (_TRUNK.fullmatch(number) or _AREA.fullmatch(number)):
        return _REGIONS
    return None


def _can_be_dialled(text: str, regions: tuple[str, ...]) -> bool:
    """Return whether a number exists: with a country code anywhere, else in one of the regions."""
    import phonenumbers

    # Numbers that Ofcom reserves for drama do not exist, but look as if they did.
    if re.sub(r"\D", "", text).startswith("07700900"):
        return True
    try:
        if not regions:
            number = phonenumbers.parse(text if text[0] == "+" else f"+{text[2:].lstrip(' -')}", None)
            if text[0] != "+" and not re.search(r"[ .()/-]", text):
                return bool(phonenumbers.is_valid_number(number))  # plain digits are an id more often
            # Not a number that is only possible without its area code: "+15 000 000" is an amount.
            reason = phonenumbers.is_possible_number_with_reason(number)
            return bool(reason == phonenumbers.ValidationResult.IS_POSSIBLE)
        return any(phonenumbers.is_valid_number(phonenumbers.parse(text, region)) for region in regions)
    except phonenumbers.NumberParseException:
        return False


def addresses_in(text: PreparedText) -> Iterator[Finding]:
    for match in _STREET.finditer(text.plain):
        yield Finding(*match.span(), DataType.STREET_ADDRESS)


def births_in(text: PreparedText) -> Iterator[Finding]:
    """Find dates that the words before call a date of birth."""
    if text.mentions(*_BIRTH_STEMS):
        for match in _BORN.finditer(text.lower):
            yield Finding(*match.span(1), DataType.BIRTH_DATE)
