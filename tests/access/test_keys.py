from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.access.keys import (
    SCOPES,
    Caller,
    KeyRecord,
    KeyRefused,
    NewKey,
    caller_of,
    fault_of_organisation,
    make_key,
)
from tests.api.keyed import client_of, key_for, running

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def record(key: NewKey, **changes: Any) -> dict[str, KeyRecord]:
    kept: dict[str, Any] = {
        "key_id": key.key_id,
        "organisation": "acme",
        "name": "ci",
        "scopes": frozenset(SCOPES),
        "secret_hash": key.secret_hash,
        "created_at": NOW,
        "created_by": "ada",
        "expires_at": None,
        "revoked_at": None,
    }
    return {key.key_id: KeyRecord(**kept | changes)}


def test_a_key_opens_what_is_its_holders() -> None:
    key = make_key()
    caller = caller_of(key.text, record(key), NOW)
    assert caller == Caller(key.key_id, "acme", "ci", frozenset(SCOPES))
    assert caller.author == "ci of acme"
    assert key.text not in repr(record(key))


@pytest.mark.parametrize(
    ("ends", "at", "said"),
    [
        ({"expires_at": NOW}, NOW, "expired"),
        ({"revoked_at": NOW}, NOW, "was revoked"),
        ({"expires_at": NOW + timedelta(days=1), "revoked_at": NOW}, NOW, "was revoked"),
    ],
)
def test_the_end_of_a_key_is_told_to_its_holder(ends: Any, at: datetime, said: str) -> None:
    key = make_key()
    with pytest.raises(KeyRefused, match=said):
        caller_of(key.text, record(key, **ends), at)
    assert caller_of(key.text, record(key, **ends), at - timedelta(seconds=1))


@given(st.data())
def test_guesses_and_damaged_keys_open_nothing(data: st.DataObject) -> None:
    key = make_key()
    at = data.draw(st.integers(0, len(key.text) - 1))
    other = data.draw(st.characters(codec="utf-8"))
    guess = key.text[:at] + other + key.text[at + 1 :]
    if guess != key.text:
        with pytest.raises(KeyRefused):
            caller_of(guess, record(key), NOW)


@given(st.text(max_size=100))
def test_any_text_is_refused_and_no_more(text: str) -> None:
    with pytest.raises(KeyRefused):
        caller_of(text, record(make_key()), NOW)


def test_keys_do_not_come_twice() -> None:
    assert len({make_key().text for _ in range(1_000)}) == 1_000


@pytest.mark.parametrize("name", ["acme", "acme-corp", "7"])
def test_names_of_organisations(name: str) -> None:
    assert fault_of_organisation(name) is None


@pytest.mark.parametrize("name", ["", "Acme", "a--b", "-a", "a b", "ä", "a" * 61, "own/x"])
def test_names_that_organisations_cannot_have(name: str) -> None:
    assert fault_of_organisation(name)


async def test_no_log_line_tells_a_secret(
    catalog_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(catalog_url) as app:
        key = await key_for(app, "acme", "keys:write")
        for name in ("headroom", "service", "sqlalchemy", "uvicorn.error"):
            logger = logging.getLogger(name)
            logger.setLevel(logging.DEBUG)
            logger.addHandler(caplog.handler)
        try:
            async with client_of(app, key) as client:
                made = (await client.post("/v1/keys", json={"name": "second"})).json()["key"]
                await client.get(f"/v1/workloads?{key}={key}")
                await client.get("/v1/nothing", headers={"X-Request-ID": key})
            async with client_of(app, made + "x") as client:
                await client.get("/v1/workloads")
        finally:
            for name in ("headroom", "service", "sqlalchemy", "uvicorn.error"):
                logging.getLogger(name).removeHandler(caplog.handler)
                logging.getLogger(name).setLevel(logging.ERROR)
    assert caplog.records
    told = "\n".join(str(vars(one)) for one in caplog.records)
    for secret in (key, made):
        assert secret.split("_", 2)[2] not in told
