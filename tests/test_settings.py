from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from service.cli import app
from service.cli.upkeep.configuration import settings_document
from service.descriptions import descriptions
from service.settings import INSTALLATION, Settings, default_data_directory


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "XDG_DATA_HOME", "HEADROOM_DATA_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)


def test_everything_has_a_default_and_a_description() -> None:
    settings = Settings()
    assert settings.database_url is None
    assert (settings.catalog_directory / "accelerators").is_dir()
    assert descriptions(Settings).keys() == Settings.model_fields.keys()


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://ada:secret@db/headroom")
    monkeypatch.setenv("HEADROOM_PORT", "9000")
    monkeypatch.setenv("HEADROOM_DATA_DIRECTORY", "/somewhere")
    monkeypatch.setenv("HEADROOM_CORS_ORIGINS", "https://a.example, https://b.example,")
    settings = Settings()
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgres://ada:secret@db/headroom"
    assert "secret" not in repr(settings)
    assert settings.port == 9000
    assert settings.data_directory == Path("/somewhere")
    assert settings.cors_origins == ("https://a.example", "https://b.example")


def test_an_empty_address_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "")
    assert Settings().database_url is None


@pytest.mark.parametrize(
    ("name", "value"), [("PORT", "65536"), ("WORKERS", "0"), ("LOG_LEVEL", "loud")]
)
def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"HEADROOM_{name}", value)
    with pytest.raises(ValidationError):
        Settings()


def test_the_reference_of_settings_is_current() -> None:
    page = (INSTALLATION / "docs" / "configuration.md").read_text()
    assert page == settings_document(), "run ./headroom settings --write-docs"
    printed = CliRunner().invoke(app, ["settings"])
    assert printed.stdout == page
    rows = {line.split(" | ")[0].strip("| `"): line for line in page.splitlines()}
    assert "| `8000` | ≥ 0, ≤ 65535 |" in rows["HEADROOM_PORT"]
    assert "`debug`, `info`" in rows["HEADROOM_LOG_LEVEL"]
    assert str(INSTALLATION) not in page
    assert str(Path.home()) not in page
    assert "Undefined" not in page


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("user", "data_home", "directory"),
    [
        (1000, None, "/home/ada/.local/share/headroom"),
        (1000, "/data", "/data/headroom"),
        (1000, "relative", "/home/ada/.local/share/headroom"),
        (0, None, "/var/lib/headroom"),
        (0, "/data", "/data/headroom"),
    ],
)
def test_the_data_directory(
    monkeypatch: pytest.MonkeyPatch, user: int, data_home: str | None, directory: str
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setattr("os.geteuid", lambda: user)
    if data_home is not None:
        monkeypatch.setenv("XDG_DATA_HOME", data_home)
    assert default_data_directory() == Path(directory)
