"""Secrets: keys in the formats of their issuers, and values after the name of a secret.

A format is precise by itself. Elsewhere the name before the value (`client_secret=`, "my password is") makes it a secret,
and the value must look like one: placeholders, code and ordinary words do not count.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

from recordari.privacy.rules.commands import credentials_in
from recordari.privacy.rules.findings import MASK, DataType, Finding, PreparedText

# A key is a long run of these characters. Ordinary text has few such runs, and formats are searched only there.
_RUN = re.compile(r"[A-Za-z0-9_.~+/=$:-]{16,}")
# Formats by first letters; every repetition is bounded and possessive, so that no text makes the search slow.
_ISSUED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"A(?:(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])|Iza[\w-]{30,40}|KID[A-Za-z0-9]{32}|GE-SECRET-KEY-1[A-Z0-9]{50,60}"
    r"|T(?:ATT3|CTT3|BB)[\w=-]{20,300}|QVN[\w-]{30,50})"
    r"|s(?:k-(?=[\w-]{0,120}[A-Z0-9])[\w-]{20,300}"
    r"|k_(?:live|test)_[A-Za-z0-9]{10,200}|hp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}|q0(?:atp|csp)-[\w-]{22,50}"
    r"|ntry[su]_[\w=+/-]{30,300}|bp_[a-f0-9]{40}|b_secret_[\w-]{20,60}|ecret_[A-Za-z0-9]{43}|l\.[\w-]{60,200})"
    r"|r(?:k_(?:live|test)_[A-Za-z0-9]{10,200}|8_[A-Za-z0-9]{30,60}|ubygems_[a-f0-9]{40,60}|cl_[a-z2-7]{52}_[\w-]{40,50})"
    r"|g(?:h[pousr]_[A-Za-z0-9]{20,255}|ithub_pat_\w{20,255}|l(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas)-[\w.-]{20,80}"
    r"|sk_[A-Za-z0-9]{20,80}|lsa_[\w-]{30,60}|lc_[\w=+/-]{40,300})"
    r"|oauth:[a-z0-9]{30}(?![a-z0-9])|[01]/\d{10,20}(?:/\d{10,20})?:[0-9a-f]{32}"
    r"|xox[abceoprs]-[\w-]{10,300}|xapp-\d-[\w-]{20,200}|x(?:ai-[A-Za-z0-9]{40,120}|keysib-[a-f0-9]{40,80}-\w{10,30})"
    r"|ya29\.[\w-]{20,500}|1//0[\w-]{30,200}|GOCSPX-[\w-]{20,60}"
    r"|n(?:pm_[A-Za-z0-9]{30,60}|tn_[A-Za-z0-9]{40,60}|fp_[A-Za-z0-9]{30,60})"
    r"|p(?:ypi-Ag[\w-]{40,400}|plx-[A-Za-z0-9]{30,80}|scale_(?:tkn|pw|oauth)_[\w.-]{30,80}|ul-[a-f0-9]{40}"
    r"|at(?:[A-Za-z0-9]{14}\.[a-f0-9]{64}|-[a-z]{2}\d-[a-f0-9-]{36}))"
    r"|h(?:f_[A-Za-z0-9]{30,60}|v[sbr]\.[\w-]{20,300}|ooks\.slack\.com/(?:services|workflows|triggers)/[\w/]{20,120})"
    r"|d(?:api[a-f0-9]{32}|o[opr]_v1_[a-f0-9]{64}|ckr_(?:pat|oat)_[\w-]{20,60}|p\.(?:pt|st|ct|sa|scim)\.[\w.-]{30,80}"
    r"|t0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64})"
    r"|SG\.[\w-]{16,32}\.[\w-]{16,64}|key-[0-9a-z]{32}(?![0-9a-z])|[0-9a-f]{32}-us\d{1,2}(?!\d)|SK[0-9a-f]{32}"
    r"|EAA[A-Za-z0-9]{60,300}|EAAA[\w-]{40,80}|access_token\$production\$\w{16}\$[a-f0-9]{32}"
    r"|l(?:in_(?:api|oauth)_[A-Za-z0-9]{30,80})|LTAI[A-Za-z0-9]{12,24}|figd_[\w-]{30,60}|PMAK-[a-f0-9]{24}-[a-f0-9]{34}"
    r"|NRAK-[A-Z0-9]{27}|HRKU-[\w-]{30,80}|tskey-[a-z]{2,10}-[\w-]{15,80}|CCIPAT_\w{20,80}|bkua_[a-f0-9]{40}"
    r"|CLOJARS_[a-f0-9]{60}|ops_eyJ[\w-]{100,1000}|whsec_[A-Za-z0-9+/=]{20,80}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,80}"
    r"|[\w~.-]{3}\dQ~[\w~.-]{31,34}|(?:bot)?\d{6,12}:(?=[\w-]{0,45}[A-Z])(?=[\w-]{0,45}[a-z])[\w-]{30,46}(?![\w-])|[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}"
    r"|(?<![\w-])eyJ[\w-]{8,1000}+\.[\w-]{8,8000}+(?:\.[\w-]{0,4000}+){1,3}"
    r"|rcd_[\w-]{20,200}|re_[A-Za-z0-9]{8,12}_[A-Za-z0-9]{20,60}|pcsk_\w{30,120}|lsv2_(?:pt|sk)_\w{30,80}|CFPAT-[\w-]{30,60}"
    r"|tfp_\w{30,80}|AAAA[\w-]{7}:APA91[\w-]{100,200}|[ps]k\.eyJ[\w-]{20,300}\.[\w-]{10,60}"
    # A short prefix and a long run of letters in both cases with digits: how most issuers write their keys now.
    r"|[a-z]{2,10}_(?=[A-Za-z0-9]{0,60}[A-Z])(?=[A-Za-z0-9]{0,60}[a-z])(?=[A-Za-z0-9]{0,60}\d)[A-Za-z0-9]{32,120}(?![\w-])"
    r"|discord(?:app)?\.com/api/webhooks/\d{16,20}/[\w-]{50,80}|[a-z0-9-]{1,60}\.webhook\.office\.com/webhookb2/[\w/-]{30,200}"
    r")"
)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,20000}"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
)
_USER_INFO = re.compile(r"://(?:[^\s:/@\"'<>]{0,64}:([^\s/\"'<>]{1,128})|([^\s:/@\"'<>]{20,128}))@")
_BEARER = re.compile(
    r"(?P<header>authorization[\"']?:\s{0,3}[\"']?(?:bearer|basic|token|apikey)|bearer)\s{1,3}(?P<value>[a-z0-9._~+/=-]{8,4000})"
)
_COOKIE = re.compile(r"cookies?[\"']?:\s{0,3}(?P<pairs>[^\n]{1,2000})")
_COOKIE_VALUE = re.compile(r"=(?P<value>[^;\s\"']{16,512})")
# Codes that open an account once: of a message, of an app, of a printed list.
_CODE_WORDS = ("otp", "one-time", "one time", " code", "passcode")
_ONE_TIME = re.compile(
    r"\b(?:otp|one[- ]time (?:code|password|passcode|pin)|(?:verification|confirmation|security|login|sign-in|auth"
    r"|authentication|2fa|mfa|sms) code)\b(?: (?:is|was))?\s{0,2}[:=]?\s{0,2}(?P<value>\d{3}[ -]\d{3}|\d{4,8})(?![\d-])"
    r"|\b(?:backup|recovery) codes?(?: (?:is|are))?\s{0,2}[:=]?\s{0,2}"
    r"(?P<printed>(?=[a-z-]{0,30}\d)[a-z0-9]{4,12}(?:-[a-z0-9]{4,12}){1,5}|\d{4}[ -]\d{4}(?![\d-])|\d{6,10}(?![\d-]))"
    # "Your … code" in a message, whoever sends it; codes of places, errors and offers are no secrets.
    r"|\byour (?!(?:zip|post(?:al)?|area|country|error|status|exit|promo|discount|coupon|voucher|product|dress|gift|source)\b)"
    r"(?:[\w-]{2,20} ){1,2}code(?: is)?\s{0,2}[:=]?\s{0,2}(?P<sent>\d{3}[ -]\d{3}|\d{4,8})(?![\d-])"
    r"|\byour code(?: is|:)\s{1,2}(?P<bare>\d{6})(?![\d-]|,\d| (?:lines|bytes|characters|tokens))"
    r"|(?<![\w.-])(?P<entered>\d{3}[ -]\d{3}|\d{4,8}) as (?:the |your |my )?"
    r"(?:verification|confirmation|security|login|sms|2fa|mfa) code\b"
    r"|(?<![\w.-])(?:[a-z]-)?(?P<first>\d{4,8}) is your (?:[\w-]{2,20} ){0,3}(?:code|otp|pin)\b"
)
# Forms of files: `.pgpass`, the thin driver of Oracle, PHP's constants, "login ana / …".
_IN_FILES = re.compile(
    r"(?<![\w.:])[\w.*-]{1,80}:(?:\d{2,5}|\*):[\w.*-]{1,64}:[\w.*-]{1,64}:(?P<pgpass>[^\s:]{4,128})(?=\s|$)"
    r"|:thin:[\w.$-]{1,64}/(?P<thin>[^\s/@]{3,128})@"
    r"|(?<=[\"':])\w{0,40}(?i:passw(?:or)?d|pass(?![a-z])|pwd|secret|token|api_?key)\w{0,20}[\"']?\s{0,2}(?:,|=>|\bvalue\s?=)\s{0,2}"
    r"[\"'](?P<constant>[^\"'\n]{6,128})[\"']"
    r"|\b(?:echo|printf)\s{1,2}[\"']?(?P<piped>[^\s\"'|]{6,128})[\"']?\s{0,2}\|\s{0,2}sudo\b"
    r"|<[\w:.-]{0,40}(?i:passw(?:or)?d|secret|token|api_?key)[\w.-]{0,20}>\s{0,2}(?P<element>[^\s<>]{6,128})\s{0,2}</"
    r"|(?i:credentials|creds|basic auth)\b:?(?: (?:is|are))?\s{1,2}[\w.@-]{1,64}:(?P<pair>[^\s/]{6,64})"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}\W{1,5}(?:[\w ]{1,30}\W{1,3})?(?P<aws>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
    r"|(?P<named_after>[^\s\"'`]{8,64})[\"'`]? as (?i:the|my|your|our|his|her)(?: new)? "
    r"(?i:passw(?:or)?d|passphrase|passcode)\b"
    r"|(?i:log[- ]?[io]n|credentials|creds|basic auth|account|zugang(?:sdaten)?)\b:?(?: (?:is|are|ist|with|as))?"
    r"(?: user(?:name)?:?)?"
    r"\s{1,2}[\w.@-]{1,64}\s?/\s?"
    r"(?P<after_user>[^\s/]{6,64})"
)
_FILE_WORDS = (
    "auth", "login", "log-in", "log in", "logon", "cred", "sudo", "account", "zugang", "pass", "pwd", "secret",
    "token", "key", "akia", "asia",
)  # fmt: skip
_ENCODED_PAIR = re.compile(r"[\"']auth[\"']\s{0,2}:\s{0,2}[\"'](?P<value>[A-Za-z0-9+/]{12,400}={0,2})[\"']")
_PIN = re.compile(
    r"(?:\bpin\b(?: code| number)?(?: (?:for|of|to|on)(?: [\w'.-]{1,30}){1,4}?)?"
    r"(?: is|:|=| es| ist| est| è| é)\s{0,2}(?P<value>\d{4}|\d{6})"
    r"|\b(?:door|gate|alarm|safe|garage|locker|entry|access|building|entrance|zugangs|tür|haustür|tor|alarm|tresor)[ -]?code"
    r"(?: [^\W\d_]{1,20}){0,3}?(?: is|:|=| ist| lautet)\s{0,2}(?P<entry>[*#]?(?:\d{6}|\d{4})[*#]?)"
    r"|\b(?:code|código|codice) (?:for|of|to|für|zu|de|para|pour|per|della?) "
    r"(?:(?:the|my|our|his|her|their|die|den|das|unsere?|la|el|le|il|mi|mon) )?(?:door|gate|alarm|safe|garage|locker|building"
    r"|entrance|flat|house|tür|haustür|tor|tresor|puerta|porte|porta)"
    r"(?: is|:| ist| es| est| è| é)\s{0,2}(?P<opener>\d{4}|\d{6})"
    r"|\b(?:safe|lock|locker|vault)(?:'s)? combination(?: is|:|=)\s{0,2}(?P<turned>\d{1,2}(?:-\d{1,2}){2,3})"
    r"|\bpuk\b(?: code| number)?(?: is|:|=)?\s{1,2}(?P<puk>\d{8}))(?![\d-])"
)
_SEED_PHRASE = re.compile(
    r"(?:seed|recovery|mnemonic)\s(?:phrase|words)(?:\s(?:is|are))?\s{0,2}[:=]?\s{0,2}[\"']?"
    r"((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})"
)
_STEMS = (
    "pass", "pwd", "pw", "masterauth", "identified",
    "contrase", "mot de", "senha", "kennwort", "пароль", "密", "口令", "パスワード", "비밀번호",
    "wachtwoord", "lösenord", "adgangskode", "hasł", "haslo", "heslo", "şifre", "salasana", "jelszó", "parol",
    "κωδικός", "סיסמה", "كلمة", "wifi", "wi-fi", "wlan", "wpa", "network",
    "key", "secret", "token", "credential", "sig", "令牌",
)  # fmt: skip
_NAME = re.compile(
    r"(?P<pass>pass(?:word|wort|wd|phrase|code|wrd)|(?<![a-z])(?:pass(?=[\"']?\s?[=:])|pw(?![a-z]))|pwd"
    r"|bindpw|requirepass|masterauth|identified by"
    r"|contrase(?:ñ|n)a|mot de passe"
    r"|senha|kennwort|пароль|密码|密碼|口令|パスワード|비밀번호|wachtwoord|lösenord|passord|adgangskode|palavra-passe|has[łl]o\b|heslo\b|şifre"
    r"|salasana|jelszó|parol[aă]\b|κωδικός|סיסמה|كلمة المرور|(?:wi-?fi|wlan|wpa[23]?|network)[ _-]?(?:key|code))"
    r"|(?P<key>(?:api|access|private|client|secret|auth|account|encryption|signing|master|shared|service)"
    r"[ _-]?(?:access[ _-]?)?key|secret|token|credentials?|(?<![a-z])sig(?:nature)?(?==)|密钥|令牌)"
)
_SUFFIX = re.compile(r"(?:[_.-]?[A-Za-z0-9]{1,20}){0,3}")
_PLAIN_SUFFIX = re.compile(
    r"(?:s|es)?(?:[_.-]?(?:id|ids|name|type|kind|url|uri|path|file|dir|policy|count|counts|limit|length|len|size|budget|expiry"
    r"|expires|ttl|at|in|field|hint|reset|version|usage|used|cost|rate|per|max|min|manager|store|issuer|scope|endpoint))+$"
    r"|^(?:s|es|ize|ized|izer|izers|ization|ion|enger|engers|ive|age|ing|ed|port|ports|ary|less|ly|word(?:s|less))$",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(
    r"[\"'`*]{0,3}(?:\s(?:for|to|of|on|at|in|from|with|do|da|d[eiou]|dell?[aeo]?|d[ae]s|der|dem|van|von|vom|zum|zur|im|am|beim"
    r"|f[üo]rs?|auf|pour|sur|aux?|para|per|en|nos?|nas?|al?|dla|till?|på|voor|op|bij)(?:\s[\w'.-]{1,30}){1,4}?)?"
    r"(?:\s?[{(]\s?(?:value|default|content)|\s?\([\w .-]{1,30}\))?\s{0,4}"
    r"(?P<sign>:=|=>|==|=|:|→|\b(?:is|was|(?:will|would|should|must) be)\b:?|['’]s\b:?"
    r"|\b(?:es|est|ist|lautet|è|é|är|er|je|jest)\b:?|是|为|は)\s{0,4}"
    r"(?:!{1,2}\w{1,20}\s{1,2})?(?:\b(?:now|still|currently|always|just|noch|immer|jetzt|toujours|ancora|ainda|todavía)\s)?"
    r"(?:[bru]{1,2}(?=[\"']))?(?P<quote>[\"'`]?)"
)
_DIRECT = re.compile(
    r"\s{1,2}(?:(?:to|as)\s|(?:for|of|from|для|от|für|vom|zum|de|du|del|do|da|per|pour|para|van|voor)\s(?:[^\W\d_]{1,20}\s){1,3}?"
    r"(?=[\"'`]?[^\s\"'`]{0,40}[\d!@#$%^&*]))?(?P<quote>[\"'`]?)"
)
_USER = re.compile(r"\b(?i:user(?:name)?|log-?in|account|role)\b")
_VALUE = re.compile(r"[^\s\"'`<>]{1,256}")
_PLACEHOLDER = re.compile(
    r"[$%]?[{<(\[].{0,512}|.{0,64}[*•…]{3}.{0,512}|[$%]\w{0,64}%?|\W{1,512}|x{3,64}|(?:your|my|the|some|example|changeme|change[_-]me"
    r"|insert|enter|replace|dummy|placeholder|redacted|masked|hidden|none|null|nil|undefined|true|false|todo|tbd"
    r"|required|optional|string|str|text|bytes|n/a)(?:[_\W].{0,512}|[A-Z]\w{0,64})?",
    re.IGNORECASE | re.DOTALL,
)
_CODE = re.compile(r"[A-Za-z_]\w{0,64}(?:(?:\.|->|::)[A-Za-z_]\w{0,64}){0,8}(?:[(\[{].{0,512})?[;,)]{0,3}", re.DOTALL)
_OWN_NAME = re.compile(r"[A-Za-z_.-]{0,64}(?:pass|pwd|secret|token|key|credential)[A-Za-z_.-]{0,64}", re.IGNORECASE)
_PATH = re.compile(
    r"(?:[A-Za-z_.~-]{0,40}/){1,20}[A-Za-z_.-]{0,40}\d{0,4}|\d{1,4}[-/.:]\d{1,2}[-/.:]\d{1,4}\S{0,20}"
    r"|v?\d{1,20}(?:\.\d{1,20}){1,4}"
)
_BEGUN_MASK = re.compile(MASK.pattern.replace(r"\]", r"(?:\]|$)"))  # a value may end at the blank in a mask
_SAMPLE_PASSWORDS = frozenset({"password", "passwd", "pass", "pwd", "secret", "token"})


def secrets_in(text: PreparedText) -> Iterator[Finding]:
    """Find secrets, in no particular order."""
    plain = text.plain
    if "-----BEGIN" in plain:
        for match in _KEY_BLOCK.finditer(plain):
            yield _secret(match.start(), match.end())
    for run in _RUN.finditer(plain):
        for match in _ISSUED.finditer(plain, run.start(), run.end()):
            yield _secret(_url_start(plain, match.start()), match.end())
    if "://" in plain:
        for match in _USER_INFO.finditer(plain):
            password, token = match.groups()
            if password is None and _looks_random(token):
                yield _secret(*match.span(2))
            elif password is not None and not _refused(password) and password.lower() not in _SAMPLE_PASSWORDS:
                yield _secret(*match.span(1))
    for start, end in credentials_in(text):
        user, _, password = plain[start:end].rpartition(":")
        is_sample = password.lower() in _SAMPLE_PASSWORDS or user.startswith(("$", "<", "{"))
        if not is_sample and not _refused(password) and len(password) >= 4:
            yield _secret(start, end)
    if "cookie" in text.lower:
        for match in _COOKIE.finditer(text.lower):
            for pair in _COOKIE_VALUE.finditer(plain, *match.span("pairs")):
                if _looks_random(pair["value"]):
                    yield _secret(*pair.span("value"))
    if text.mentions("bearer", "authorization"):
        for match in _BEARER.finditer(text.lower):
            value = plain[slice(*match.span("value"))]
            if not _refused(value) and (match["header"] != "bearer" or _looks_random(value)):
                yield _secret(*match.span("value"))
    if text.mentions(*_CODE_WORDS):
        for match in _ONE_TIME.finditer(text.lower):
            assert match.lastgroup is not None
            yield _secret(*match.span(match.lastgroup))
    if plain.count(":") >= 4 or text.mentions(*_FILE_WORDS):
        yield from _secrets_of_files(plain)
    if text.mentions("pin", "puk", "code", "combination"):
        for match in _PIN.finditer(text.lower):
            assert match.lastgroup is not None
            yield _secret(*match.span(match.lastgroup))
    if text.mentions("seed", "recovery", "mnemonic"):
        for match in _SEED_PHRASE.finditer(text.lower):
            yield _secret(match.start(1), match.end(1))
    if text.mentions(*_STEMS):
        yield from _named_secrets(text)


def _secrets_of_files(plain: str) -> Iterator[Finding]:
    for match in _IN_FILES.finditer(plain):
        assert match.lastgroup is not None
        value = match[match.lastgroup]
        is_thin = match.lastgroup == "thin" and value.lower() not in _SAMPLE_PASSWORDS
        if not _refused(value) and (is_thin or _looks_chosen(value)):
            yield _secret(*match.span(match.lastgroup))
    if "auth" in plain:
        for match in _ENCODED_PAIR.finditer(plain):
            with suppress(ValueError):
                if b":" in base64.b64decode(match["value"]):
                    yield _secret(*match.span("value"))


def is_secret_under(name: str, value: str) -> bool:
    """Return whether a value is a secret because of its name, as in `{"password": "…"}`."""
    match = _NAME.search(name.lower())
    if match is None or _PLAIN_SUFFIX.search(name[match.end() :]) or _refused(value):
        return False
    return len(value) >= 4 and (match["pass"] is not None or _looks_random(value))


def _secret(start: int, end: int) -> Finding:
    return Finding(start, end, DataType.SECRET)


def _url_start(text: str, start: int) -> int:
    return start - 8 if text[start] in "hd" and text.startswith("https://", max(0, start - 8)) else start


def _named_secrets(text: PreparedText) -> Iterator[Finding]:
    done = 0
    for name in _NAME.finditer(text.lower):
        if name.start() < done:
            continue
        suffix = _SUFFIX.match(text.plain, name.end())
        if suffix is not None and suffix.group() and _PLAIN_SUFFIX.search(suffix.group()):
            continue
        span = _value_span(text.plain, name, suffix.end() if suffix is not None else name.end())
        if span is not None:
            yield _secret(*span)
            done = span[1]


def _value_span(text: str, name: re.Match[str], end: int) -> tuple[int, int] | None:
    is_pass = name["pass"] is not None
    separator = _SEPARATOR.match(text, end)
    is_option = text[max(0, name.start() - 24) : name.start()].rpartition(" ")[2].startswith("--")
    if separator is None:
        direct = _DIRECT.match(text, end)
        if direct is None:
            return None
        span = _read_value(text, direct.end(), direct["quote"])
        value = text[slice(*span)]
        if name.group() == "passphrase" and direct["quote"] and value.count(" ") >= 2:
            return span
        if not (is_pass or is_option):
            return span if not _refused(value) and _looks_generated(value) else None
        is_beside_user = _USER.search(text, max(0, name.start() - 40), name.start()) is not None
        is_named = (is_beside_user or name.group() == "identified by") and _looks_chosen(value)
        is_strong = is_named or (len(value) >= 8 and _classes(value) >= 3)
        return span if not _refused(value) and (is_strong or (is_option and _looks_random(value))) else None
    span = _read_value(text, separator.end(), separator["quote"])
    value = text[slice(*span)]
    if _refused(value):
        return None
    sign = separator["sign"]
    if not is_pass:
        is_short_signature = name.group().startswith("sig") and len(value) < 20
        return span if not is_short_signature and _looks_random(value) else None
    is_setting = sign in {"=", ":=", "=>", "=="} or (sign == ":" and text[max(0, name.start() - 1)] in "_-.")
    if separator["quote"] or is_setting or is_option:
        return span if not _is_code(value, quoted=bool(separator["quote"]), tight=separator.end() - end <= 1) else None
    return span if _looks_chosen(value) else None


def _is_code(value: str, *, quoted: bool, tight: bool) -> bool:
    """Return whether a value is code or a form instead of a password: `password = settings.password`."""
    if _OWN_NAME.fullmatch(value):
        return True
    has_digit = any(map(str.isdigit, value))
    if quoted or _CODE.fullmatch(value) is None:
        return False
    return not (tight or has_digit) if value.isalnum() else not has_digit or "(" in value


def _read_value(text: str, start: int, quote: str) -> tuple[int, int]:
    if quote:
        end = text.find(quote, start, start + 512)
        if end > start and "\n" not in text[start:end]:
            return start, end
    match = _VALUE.match(text, start)
    if match is None:
        return start, start
    end, value = match.end(), match.group()
    for stop in (";", "&", ","):
        cut = value.find(stop)
        # A password may contain any of these, but usually the next setting follows.
        if cut > 0 and ("=" in value[cut:] or ":" in value[cut:] or cut == len(value) - 1):
            end = min(end, start + cut)
    while end > start and text[end - 1] in ".,;:)]}，。；）":
        end -= 1
    return start, end


def _refused(value: str) -> bool:
    """Return whether a value is too short, masked already, or a placeholder."""
    is_masked = "[" in value and _BEGUN_MASK.search(value) is not None
    return len(value) < 3 or value[0] == "?" or is_masked or _PLACEHOLDER.fullmatch(value) is not None


def _classes(value: str) -> int:
    """Count the classes of characters: lower case, upper case, digits, others."""
    return (
        any(map(str.islower, value))
        + any(map(str.isupper, value))
        + any(map(str.isdigit, value))
        + (not value.replace("_", "a").replace(".", "a").isalnum())
    )


def _looks_chosen(value: str) -> bool:
    """Return whether prose names a password, unlike "password: click the link"."""
    if len(value) < 6 or value[0] in "/#@" or "://" in value:
        return False
    if value.isdigit():
        return True
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    if has_letter and has_digit:
        return not re.fullmatch(r"\d{1,4}[-–]?[A-Za-z]{1,12}", value)  # 12-character
    return value.count("-") >= 3 or (has_letter and any(sign in value[:-1] for sign in "!@#$%^&*+~|\\"))


def _looks_generated(value: str) -> bool:
    """Return whether a value without any sign before it is a secret: "the secret 9f8a7b6c", unlike "secret Agent-007"."""
    if not re.fullmatch(r"[\w~+/=!@#$%^&*.-]{6,256}", value) or re.fullmatch(
        r"v?\d{1,4}(?:[a-z]{1,5}\d{0,4}|[.-]\S*)", value
    ):
        return False
    if len(value) >= 16 and _classes(value) >= 3 and _turns(value) >= 0.3 * len(value):
        return True
    signs = [sign.isdigit() for sign in value if sign.isalnum()]
    turns = sum(before != after for before, after in pairwise(signs))
    # Words with a number at their end turn once, names like `v1beta1` or `B2B` up to three times.
    return turns >= 4 or (turns >= 2 and len(value) >= 12 and _classes(value) >= 2 and sum(signs) >= 3)


def _turns(value: str) -> int:
    """Count the changes between lower case, upper case, digits and others; a capital that begins a word is none."""
    classes = ["l" if sign.islower() else "u" if sign.isupper() else "d" if sign.isdigit() else "o" for sign in value]
    return sum(before != after and (before, after) != ("u", "l") for before, after in pairwise(classes))


def _looks_random(value: str) -> bool:
    """Return whether a value is generated: long, of several classes, without the regularity of words or code."""
    if len(value) < 8 or "://" in value or value[0] in "/#@" or value.isdigit():
        return False
    has_digit = any(map(str.isdigit, value))
    if _CODE.fullmatch(value) and not has_digit and _classes(value) < 3 and not (len(value) >= 20 and value.isalnum()):
        return False
    if re.search(r"[(){}\[\]<>\s]", value) or _PATH.fullmatch(value):
        return False
    if not has_digit and not (len(value) >= 16 and _classes(value) >= 2):
        return False
    shares = [count / len(value[:128]) for count in Counter(value[:128]).values()]
    return -sum(share * math.log2(share) for share in shares) >= 2.0
