"""Locks, container files and the wheel agree with the project and with each other."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.cli.upkeep.checkout import LOCKS
from service.extras import EXTRAS
from service.settings import Settings

PROJECT_FOLDER = Path(__file__).parents[2]
PROJECT = tomllib.loads((PROJECT_FOLDER / "pyproject.toml").read_text())


def distribution(requirement: str) -> str:
    """The normalised name in a requirement."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def locked(lock: str) -> dict[str, set[str]]:
    """The pinned versions in a lock file, by name; some depend on the Python version."""
    pins: dict[str, set[str]] = {}
    for line in (PROJECT_FOLDER / "requirements" / f"{lock}.txt").read_text().splitlines():
        if pin := re.match(r"([a-z0-9.-]+)==(\S+)", line):
            pins.setdefault(pin[1], set()).add(pin[2])
    return pins


def environment_names() -> set[str]:
    """Every environment variable that the settings read."""
    return {
        str(field.validation_alias or f"HEADROOM_{name.upper()}")
        for name, field in Settings.model_fields.items()
    }


# --- Locks


def test_every_dependency_is_locked() -> None:
    direct = {distribution(requirement) for requirement in PROJECT["project"]["dependencies"]}
    groups = PROJECT["dependency-groups"]
    assert {"include-group": "docs"} in groups["dev"]
    development = {
        distribution(item)
        for item in (*groups["dev"], *groups["docs"])
        if isinstance(item, str)  # and not another group
    }
    assert direct <= locked("runtime").keys()
    assert direct | development <= locked("dev").keys()
    assert not development & locked("runtime").keys()
    for name, requirements in PROJECT["project"]["optional-dependencies"].items():
        extra = {distribution(requirement) for requirement in requirements}
        assert extra <= locked(name).keys() & locked("dev").keys()
        assert not extra & locked("runtime").keys()


def test_one_environment_can_hold_either_lock() -> None:
    development = locked("dev")
    for lock in LOCKS:
        assert {name: development[name] for name in locked(lock)} == locked(lock)


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_carry_hashes_and_no_address(lock: str) -> None:
    text = (PROJECT_FOLDER / "requirements" / f"{lock}.txt").read_text()
    requirements = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert len(requirements) >= len(locked(lock))
    assert all("--hash=sha256:" in requirement for requirement in requirements)
    assert "://" not in text
    assert "--index-url" not in text


def test_the_launcher_the_locks_and_the_project_name_the_same_extras() -> None:
    launcher = (PROJECT_FOLDER / "headroom").read_text()
    assert f"known_parts='{' '.join(LOCKS)}'" in launcher
    assert f"for extra in {' '.join(EXTRAS)}; do" in launcher
    assert set(LOCKS) == {path.stem for path in (PROJECT_FOLDER / "requirements").iterdir()}
    assert set(LOCKS) - {"runtime", "dev"} == PROJECT["project"]["optional-dependencies"].keys()


# --- Containers


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((PROJECT_FOLDER / "docker-compose.yml").read_text())
    return content


@pytest.fixture(scope="module")
def dockerfile() -> list[tuple[str, str]]:
    """The instructions, as (word, rest), with continued lines joined and comments dropped."""
    text = (PROJECT_FOLDER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def final_stage(dockerfile: list[tuple[str, str]]) -> list[tuple[str, str]]:
    last = max(place for place, (word, _) in enumerate(dockerfile) if word == "FROM")
    return dockerfile[last:]


def test_compose_waits_for_a_healthy_pinned_postgres(compose: dict[str, Any]) -> None:
    database = compose["services"]["database"]
    assert re.fullmatch(r"postgres:\d+-alpine", database["image"])
    assert "pg_isready" in database["healthcheck"]["test"][1]
    waits_for = compose["services"]["headroom"]["depends_on"]["database"]
    assert waits_for == {"condition": "service_healthy"}


def test_compose_gives_the_service_no_more_than_it_needs(compose: dict[str, Any]) -> None:
    for name in ("headroom", "worker"):
        service = compose["services"][name]
        assert service["read_only"] is True
        assert service["tmpfs"] == ["/tmp"]  # noqa: S108
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_compose_shares_requests_among_two_replicas(
    compose: dict[str, Any], dockerfile: list[tuple[str, str]]
) -> None:
    service, balancer = compose["services"]["headroom"], compose["services"]["balancer"]
    assert service["deploy"]["replicas"] == 2
    assert "ports" not in service
    assert balancer["depends_on"]["headroom"] == {"condition": "service_healthy"}
    [published] = balancer["ports"]
    assert published.startswith("127.0.0.1:8000:")  # as the README says
    settings = " ".join(rest for word, rest in dockerfile if word == "ENV")
    [port] = re.findall(r"HEADROOM_PORT=(\d+)", settings)
    caddyfile = (PROJECT_FOLDER / "deploy" / "caddy" / "Caddyfile").read_text()
    assert f":{published.rpartition(':')[2]} {{" in caddyfile
    assert re.search(rf"name headroom\s+port {port}\b", caddyfile)
    prometheus = yaml.safe_load(
        (PROJECT_FOLDER / "deploy" / "prometheus" / "prometheus.yml").read_text()
    )
    [scraped] = prometheus["scrape_configs"]
    [found] = scraped["dns_sd_configs"]
    assert (found["names"], found["port"]) == (["headroom"], int(port))


def test_compose_mounts_what_exists(compose: dict[str, Any]) -> None:
    mounts = [
        mount.split(":")
        for service in compose["services"].values()
        for mount in service.get("volumes", ())
    ]
    files = [mount for mount in mounts if mount[0].startswith("./")]
    assert len(files) >= 2
    assert all((PROJECT_FOLDER / source).exists() for source, *_ in files)
    assert all(rest[-1] == "ro" for _, *rest in files)
    assert {source for source, *_ in mounts if "/" not in source} == set(compose["volumes"])


def test_containers_set_only_known_variables(
    compose: dict[str, Any], dockerfile: list[tuple[str, str]]
) -> None:
    set_by_image = {
        name
        for word, rest in dockerfile
        if word == "ENV"
        for name in re.findall(r"(\w+)=", rest)
        if name.startswith("HEADROOM_")
    }
    set_by_compose = set(compose["services"]["headroom"]["environment"])
    assert {"HEADROOM_HOST", "DATABASE_URL"} <= set_by_image | set_by_compose
    assert set_by_image | set_by_compose <= environment_names()


def test_the_image_runs_unprivileged_and_says_how_it_feels(
    dockerfile: list[tuple[str, str]],
) -> None:
    instructions = dict(final_stage(dockerfile))
    assert int(instructions["USER"].split(":")[0]) > 0
    assert "/readyz" in instructions["HEALTHCHECK"]
    assert not [rest for word, rest in final_stage(dockerfile) if "pip install" in rest]


def test_the_image_installs_the_locked_packages(dockerfile: list[tuple[str, str]]) -> None:
    installs = [rest for word, rest in dockerfile if word == "RUN" and "pip install" in rest]
    assert installs
    assert all("--require-hashes" in rest for rest in installs)
    assert all(
        re.match(r"python:3\.\d+-slim\b", rest) for word, rest in dockerfile if word == "FROM"
    )


def test_the_image_holds_every_extra(dockerfile: list[tuple[str, str]]) -> None:
    [parts] = [rest for word, rest in dockerfile if word == "ARG" and rest.startswith("PARTS=")]
    assert parts == f'PARTS="{" ".join(("runtime", *EXTRAS))}"'


def test_the_image_copies_what_exists_and_is_not_ignored(
    dockerfile: list[tuple[str, str]],
) -> None:
    allowed = {
        line[1:].rstrip("/")
        for line in (PROJECT_FOLDER / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = [
        source.rstrip("/")
        for word, rest in dockerfile
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert {"service", "migrations", "hardware_catalog"} <= set(copied)
    for source in copied:
        assert (PROJECT_FOLDER / source).exists(), source
        assert source in allowed, source


def test_the_example_environment_names_every_setting() -> None:
    lines = (PROJECT_FOLDER / ".env.example").read_text().splitlines()
    named = [found[1] for line in lines if (found := re.match(r"#?([A-Z][A-Z_0-9]*)=", line))]
    assert len(named) == len(set(named))
    assert set(named) == environment_names()


# --- The wheel


def test_the_wheel_carries_service_catalog_and_migrations(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path],
        cwd=PROJECT_FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    [wheel] = tmp_path.glob("headroom-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("service", "hardware_catalog", "migrations"):
        expected = {
            str(path.relative_to(PROJECT_FOLDER))
            for path in (PROJECT_FOLDER / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert expected
        assert expected <= packed
    assert not [name for name in packed if name.startswith(("tests/", "benchmarks/"))]
