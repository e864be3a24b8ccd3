"""The settings of the service: every one of them, with its default and what it is for.

Each is read from the environment variable ``HEADROOM_<NAME>``; the database's address is read from
plain ``DATABASE_URL``, where hosting platforms put it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.cached_files import cache_home

#: The folder that holds the packages ``service``, ``hardware_catalog`` and ``migrations``.
INSTALLATION = Path(__file__).resolve().parent.parent


def default_data_directory() -> Path:
    """Where the embedded database lives unless told otherwise.

    ``$XDG_DATA_HOME/headroom`` or ``~/.local/share/headroom``. For root without XDG_DATA_HOME it
    is ``/var/lib/headroom``: Postgres refuses to run as root, and the system user that it runs as
    would otherwise need access to root's home.
    """
    data_home = os.environ.get("XDG_DATA_HOME", "")
    if Path(data_home).is_absolute():
        return Path(data_home) / "headroom"
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/headroom")
    return Path.home() / ".local" / "share" / "headroom"


def postgres_dsn(url: str) -> str:
    """An address as Postgres' own tools write it, from that or from SQLAlchemy's form.

    Raises
    ------
    ValueError
        If it is not the address of a Postgres database.
    """
    dsn, found = re.subn(r"^postgres(?:ql)?(?:\+asyncpg)?://", "postgresql://", url)
    if not found:
        raise ValueError("must start with postgres:// or postgresql://")
    return dsn


class Settings(BaseSettings):
    """How one process of the service is set up. Frozen: a change needs a new process."""

    model_config = SettingsConfigDict(
        env_prefix="HEADROOM_", frozen=True, extra="ignore", validate_by_name=True
    )

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all interfaces."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on; 0 picks a free one."""
    root_path: str = ""
    """Path prefix that a reverse proxy strips before it forwards a request."""
    workers: int = Field(1, ge=1, le=256)
    """Worker processes. Each holds its own catalog snapshot."""
    drain_s: float = Field(2.0, ge=0, le=300)
    """Seconds after SIGTERM in which connected clients are still answered and asked to close their
    connections."""
    client_timeout_s: float = Field(30.0, gt=0, le=3600)
    """Seconds that a client may take to send a request, and to receive any part of the answer;
    after that the connection is closed."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest severity that is logged."""
    log_format: Literal["json", "console"] = "json"
    """json: one object per line, for machines; console: for people."""

    database_url: SecretStr | None = Field(None, validation_alias="DATABASE_URL")
    """Postgres to use (postgres://user:password@host:port/name). Without it an embedded Postgres is
    started in data_directory."""
    embedded_database: bool = True
    """Start the embedded Postgres if DATABASE_URL is not set. False: serve the packaged catalog
    from memory, without a database."""
    data_directory: Path = Field(default_factory=default_data_directory)
    """Folder of the embedded Postgres. Processes on one machine may share it."""
    catalog_directory: Path = INSTALLATION / "hardware_catalog"
    """Folder of the packaged catalog files that are imported at start."""
    catalog_poll_s: float = Field(30.0, gt=0, le=3600)
    """Seconds between checks for a new catalog revision, in case the database's notification is
    lost or cannot pass a connection pooler."""
    database_timeout_s: float = Field(10.0, gt=0, le=300)
    """Timeout for connections and queries, in seconds."""

    body_limit_bytes: int = Field(1_000_000, ge=1_000)
    """Largest request body; a larger one is answered 413."""
    answer_cache_bytes: int = Field(8_000_000, ge=0)
    """Memory per worker for caching answers; 0 disables the cache."""
    import_limit_bytes: int = Field(5_000_000, ge=1_000)
    """Largest file that can be imported: entries of the catalog, or measurements."""
    batch_limit_items: int = Field(1_000, ge=1)
    """Largest number of estimates in one batch or comparison."""
    measurement_limit_reports: int = Field(10_000, ge=1)
    """Largest number of reported measurements that are stored per organisation, and of all callers
    without an API key together."""
    measurement_limit_bytes: int = Field(50_000_000, ge=1_000)
    """Room for them per organisation, and of all callers without an API key together."""
    measurements_without_key_teach: bool = False
    """Let measurements reported without an API key correct the estimates of all who ask without
    one: for a service that only people who trust each other can reach."""
    sweep_limit_configurations: int = Field(150_000_000, ge=1)
    """Largest number of configurations of one sweep."""
    sweep_limit_unfinished: int = Field(20, ge=1)
    """Largest number of unfinished sweeps per organisation, and of all callers without an API key
    together."""
    sweep_limit_rows: int = Field(10_000_000, ge=1)
    """Largest number of rows stored per sweep, at about 100 bytes each."""
    sweep_keep_days: float = Field(30.0, gt=0, le=36_500)
    """Days after which the results of a sweep are deleted."""
    sweep_worker: bool = True
    """Evaluate sweeps inside `serve` if the embedded database is used. With DATABASE_URL, `headroom
    worker` processes do."""
    worker_heartbeat_s: float = Field(10.0, gt=0, le=600)
    """Seconds between a worker's heartbeats; after three missing ones, other workers take over its
    work."""
    concurrency_limit: int | None = Field(None, ge=1)
    """Requests in flight per worker above which the service answers 503."""
    oidc_issuer: str | None = Field(None, pattern="^https?://[^ ]+$")
    """OpenID Connect issuer whose tokens are accepted instead of API keys, e.g.
    https://login.example.com/realms/acme."""
    oidc_audience: str = Field("headroom", min_length=1)
    """Required audience of its tokens."""
    oidc_organisation_claim: str = Field("organisation", min_length=1)
    """Claim that names the holder's organisation."""
    oidc_scope_claim: str = Field("scope", min_length=1)
    """Claim that lists the holder's scopes."""
    rate_limit_per_minute: int | None = Field(None, ge=1, le=1_000_000)
    """Units that one address without a key may use per minute and worker: an estimate is 1, a
    recommendation 20. Empty for no limit."""
    rate_limit_per_minute_with_key: int | None = Field(None, ge=1, le=1_000_000)
    """The same for each API key."""
    chart_processes: int = Field(1, ge=1, le=64)
    """Processes of each worker that draw charts, started when needed; each holds about 120 MB."""
    chart_timeout_s: float = Field(15.0, gt=0, le=300)
    """Timeout for drawing a chart in seconds, including waiting for others but not for the process
    that draws to start."""
    region: str | None = None
    """Catalog region in which the service itself runs; its PUE and grid are used to estimate the
    service's own energy and carbon in /metrics."""
    processor_w: float = Field(3.8, gt=0, le=1000)
    """Watts of a server per busy logical processor, for that estimate. The default is the mean of
    Cloud Carbon Footprint's 3.50 (AWS), 4.26 (Google) and 3.76 (Azure)."""
    uk_carbon_intensity: bool = False
    """Use NESO's public service (no key) for current emissions of the British grid."""
    electricity_maps_token: SecretStr | None = None
    """Your Electricity Maps key, for the grid's current average intensity."""
    entsoe_token: SecretStr | None = None
    """Your ENTSO-E Transparency Platform token, for European grids."""
    watttime_user: str | None = None
    """Your WattTime account, for the grid's marginal intensity."""
    watttime_password: SecretStr | None = None
    """Its password."""
    grid_refresh_s: float = Field(300.0, ge=10, le=86_400)
    """Seconds after which live grid figures are updated."""
    grid_timeout_s: float = Field(5.0, gt=0, le=60)
    """Timeout for providers of grid figures, in seconds."""

    hub_offline: bool = False
    """Never contact the Hugging Face Hub; models fetched before still work."""
    hub_endpoint: str = Field(
        "https://huggingface.co", pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$"
    )
    """Address of the Hub, or of a mirror."""
    hub_token: SecretStr | None = None
    """Token for gated and private models. Everybody who can use this service can then use all
    models that the token's account can read."""
    hub_timeout_s: float = Field(10.0, gt=0, le=60)
    """Timeout for fetching a model's files, in seconds."""
    hub_refresh_s: float = Field(3600.0, ge=0, le=31_536_000)
    """Seconds after which the Hub is asked whether a branch has changed."""
    hub_cache_directory: Path = Field(default_factory=lambda: cache_home() / "hub")
    """Folder in which fetched configurations are stored."""

    cors_origins: Annotated[tuple[str, ...], NoDecode] = ("*",)
    """Origins whose pages may call the API from a browser, separated by commas. The API has no
    cookies, so any origin is a safe default."""

    embed_origins: Annotated[tuple[str, ...], NoDecode] = ("*",)
    """Sites that may embed /embed in a frame, separated by commas; * for all, empty for none."""

    @field_validator("cors_origins", "embed_origins", mode="before")
    @classmethod
    def _split_origins(cls, given: object) -> object:
        if isinstance(given, str):
            return tuple(part.strip() for part in given.split(",") if part.strip())
        return given

    @field_validator("database_url")
    @classmethod
    def _of_postgres(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None:
            postgres_dsn(given.get_secret_value())
        return given

    @field_validator("catalog_directory")
    @classmethod
    def _is_there(cls, given: Path) -> Path:
        if not given.is_dir():
            raise ValueError(f"there is no folder {given}")
        return given

    @field_validator(
        "database_url",
        "oidc_issuer",
        "rate_limit_per_minute",
        "rate_limit_per_minute_with_key",
        "region",
        "electricity_maps_token",
        "entsoe_token",
        "watttime_user",
        "watttime_password",
        "hub_token",
        mode="before",
    )
    @classmethod
    def _empty_is_none(cls, given: object) -> object:
        return None if given == "" else given


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    alias = Settings.model_fields[name].validation_alias
    return alias if isinstance(alias, str) else f"HEADROOM_{name.upper()}"
