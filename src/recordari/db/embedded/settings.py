"""The settings of the embedded PostgreSQL: where it lives, durable, for one machine, and with a log free of content."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from recordari.errors import ConfigurationError

__all__ = ["DEFAULT_SETTINGS", "FIXED_SETTINGS", "PORT", "default_cache", "default_home", "server_settings"]

PORT = 5432  # only a part of the socket's name: the server listens on no network address

DEFAULT_SETTINGS: Mapping[str, str] = {
    # Durability: an acknowledged write survives a crash.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # Memory and planning for one machine with a fast disk.
    "shared_buffers": "256MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "max_connections": "40",
    "random_page_cost": "1.1",
    "jit": "off",
    # Few checkpoints: each one makes the next write of a page log it whole.
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "on",
    # Small tables change often here (outbox, jobs): look at them earlier than the default does.
    "autovacuum_max_workers": "2",
    "autovacuum_naptime": "30s",
    "autovacuum_vacuum_scale_factor": "0.1",
    "autovacuum_analyze_scale_factor": "0.05",
    "timezone": "UTC",
    # No content in the log. Errors go to the client that caused them and not here, because their text quotes
    # values; `terse` drops the detail lines, which quote rows and statements.
    "log_timezone": "UTC",
    "log_destination": "stderr",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "cluster_name": "recordari",
}
FIXED_SETTINGS = frozenset(
    {"data_directory", "external_pid_file", "listen_addresses", "logging_collector", "port"}
    | {"unix_socket_directories", "unix_socket_permissions"}
)


def server_settings(socket_dir: Path, chosen: Mapping[str, str]) -> Mapping[str, str]:
    """Put together what the server is started with; `chosen` may change all but what supervision needs."""
    for name in chosen:
        if not re.fullmatch(r"[a-z_][a-z0-9_.]*", name) or name in FIXED_SETTINGS:
            raise ConfigurationError(f"the PostgreSQL setting {name!r} cannot be changed for the embedded database")
    return {
        **DEFAULT_SETTINGS,
        **chosen,
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": '"' + str(socket_dir).replace('"', '""') + '"',
        "unix_socket_permissions": "0700",
        "logging_collector": "off",
    }


def default_home() -> Path:
    """Return the folder for data: below `/var/lib` for root, below the home folder for others."""
    return Path("/var/lib/recordari") if os.geteuid() == 0 else Path.home() / ".local" / "share" / "recordari"


def default_cache() -> Path:
    """Return the folder for what can be made again: the template and copied programs."""
    return Path("/var/cache/recordari") if os.geteuid() == 0 else Path.home() / ".cache" / "recordari"
