"""Credentials on a command line: `curl -u ana:…`, `mysql -p…`, `sshpass -p …`.

The same option means something else to most programs (`mkdir -p`, `sort -u`), so that the program decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recordari.privacy.rules.findings import PreparedText

_VALUE = r"(?P<value>\"[^\"\n]{1,128}\"|'[^'\n]{1,128}'|[^\s\"'|;<>]{1,128})"
_PAIR = r"(?P<value>[\"']?[^\s\"':/|;<>]{1,64}:[^\s\"'|;<>]{1,128})"
# Programs, and the option whose value is a password, or a user and a password.
_OPTIONS = tuple(
    (programs.split(), re.compile(rf"(?:^|\s)(?:{option}){value}"))
    for programs, option, value in (
        ("curl", r"-[a-zA-Z]{0,6}[uU]\s{0,2}|--(?:proxy-)?user[ =]", _PAIR),
        ("http https httpie xh", r"-a\s{0,2}|--auth[ =]", _PAIR),
        ("wget aria2c", r"--(?:http-|ftp-|proxy-)?passw(?:or)?d[ =]", _VALUE),
        ("mysql mysqldump mysqladmin mysqlimport mariadb mariadb-dump 7z 7za rar unrar", r"-p(?=[^\s-])", _VALUE),
        ("mongo mongosh mongodump mongorestore mongoexport mongoimport sshpass", r"-p\s{0,2}", _VALUE),
        ("login", r"-p\s{1,2}", _VALUE),  # docker, podman, helm, az, oc
        ("redis-cli valkey-cli keydb-cli", r"-a\s{1,2}|--pass\s{1,2}", _VALUE),
        ("ldapsearch ldapadd ldapmodify ldapdelete ldappasswd ldapwhoami", r"-w\s{0,2}", _VALUE),
        ("smbclient rpcclient smbget winexe", r"-U\s{0,2}|--user[ =]", r"(?P<value>[^\s%]{1,64}%[^\s|;<>]{1,128})"),
        ("lftp", r"-u\s{0,2}", r"(?P<value>[^\s,]{1,64},[^\s|;<>]{1,128})"),
        ("zip unzip mosquitto_pub mosquitto_sub", r"-P\s{1,2}", _VALUE),
        ("ssh-keygen", r"-[NP]\s{1,2}", _VALUE),
        ("plink pscp psftp", r"-pw\s{1,2}", _VALUE),
        ("htpasswd", r"-[a-zA-Z]{0,4}b[a-zA-Z]{0,4}\s+\S{1,200}\s+\S{1,64}\s+", _VALUE),
        ("sqlcmd bcp isql", r"-P\s{0,2}", _VALUE),
        (
            "sqlplus sqlldr",
            r"(?:-\w{1,2}\s+)?(?=[^\s/@]{1,64}/)",
            r"(?P<value>[^\s/@]{1,64}/[^\s@/|;<>]{1,128})(?=[@\s]|$)",
        ),
        ("net", r"use\s+(?:\S{1,200}\s+){1,2}/user:\S{1,64}\s+", _VALUE),
        ("openssl", r"-k\s{1,2}|-pass(?:in|out)?\s{1,2}pass:", _VALUE),
        ("sudo", r"-[a-zA-Z]{0,4}S\b[^\n|;<>]{0,80}<<<\s{0,2}", _VALUE),
        ("cmdkey schtasks runas", r"/p(?:ass)?[: ]", _VALUE),
    )
)
_BY_PROGRAM = {program: option for programs, option in _OPTIONS for program in programs}
_PROGRAM = re.compile(
    r"(?<![\w./-])(?:[\w./-]{0,80}/)?("
    + "|".join(re.escape(program) for program in sorted(_BY_PROGRAM, key=len, reverse=True))
    + r")(?:\.exe)?(?=\s)[^\n|;]{1,400}"
)
_PROGRAM_STEMS = tuple(
    "curl http xh wget aria2c mysql mariadb 7z rar mongo sshpass login -cli ldap smb rpcclient winexe lftp zip mosquitto "
    "ssh-keygen plink pscp psftp htpasswd sqlcmd bcp isql sqlplus sqlldr net openssl sudo cmdkey schtasks runas".split()
)


def credentials_in(text: PreparedText) -> Iterator[tuple[int, int]]:
    """Find the values of options that hold a password; whether each is a placeholder is for the caller to say."""
    if not text.mentions(" -", " /") or not text.mentions(*_PROGRAM_STEMS):
        return
    for command in _PROGRAM.finditer(text.plain):
        for match in _BY_PROGRAM[command[1]].finditer(text.plain, command.end(1), command.end()):
            start, end = match.span("value")
            if text.plain[start] in "\"'":
                start += 1
                end -= text.plain[end - 1] in "\"'"
            else:
                end = start + len(text.plain[start:end].rstrip(".,:)]}"))
            yield start, end
