"""What is asked of the Hub, how often, and what becomes of strange answers."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import httpx
import pytest

from service.hub.client import HubAway, HubRefuses
from service.hub.hub import Hub
from service.hub.names import HubName, NameInvalid, hub_name
from service.settings import Settings
from tests.hub.standin import COMMIT, CONFIG, LATER, PARAMETERS, TOKEN

SMALL = HubName("acme/small")


async def files(settings: Settings, *names: HubName):
    hub = Hub(settings)
    try:
        return [await hub.files(name) for name in names]
    finally:
        await hub.stop()


@pytest.mark.parametrize("text", ["acme/small", "gpt2", "a/b@v1.0", "a/b@refs/pr/1", "A_b/c.d-e"])
def test_names_of_the_hub(text):
    assert str(hub_name(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "a/", "/a", "a/b/c", "../a", "a/..", "a/b..c", "a b/c", "a/b?x", "a/b#x", "å/b"),
        *("a/b@", "a/b@../x", "a/b@/x", "a/b@x..y", "a/b@x y", "@x", ".a/b", "-a/b", "a\n/b"),
        *("a/b@x\n", "a/b\n", "a" * 97, "http://x/y", "a%2f/b", "a\\b/c", "a/b@v1@v2"),
    ],
)
def test_names_that_could_lead_elsewhere_are_refused(text):
    with pytest.raises(NameInvalid):
        hub_name(text)


async def test_a_model_is_told_with_its_commit_and_its_weights(settings, endpoint):
    [(found, may_be_old)] = await files(settings(), SMALL)
    assert found.commit == COMMIT
    assert found.config == CONFIG
    assert found.elements_by_type == {"BF16": PARAMETERS}
    assert found.year == 2024
    assert found.url == f"{endpoint}/acme/small/blob/{COMMIT}/config.json"
    assert not may_be_old


async def test_a_slash_in_a_revision_is_no_path(settings, standin):
    await files(settings(), HubName("acme/small", "feature/x"))
    assert standin.asked["model small@feature/x"] == 1


async def test_many_ask_once(settings, standin):
    hub = Hub(settings())
    found = await asyncio.gather(*(hub.files(SMALL) for _ in range(20)))
    await hub.stop()
    assert len({id(one) for one, _ in found}) == 1
    assert standin.asked["model small@main"] == 1


async def test_what_was_fetched_is_kept_on_disk(settings, standin):
    await files(settings(), SMALL)
    standin.broken = True
    [(found, may_be_old)] = await files(settings(), SMALL)
    assert (found.commit, may_be_old) == (COMMIT, False)


async def test_a_branch_that_has_moved_is_fetched_again(settings, standin):
    due = settings(hub_refresh_s=0)
    await files(due, SMALL)
    assert (await files(due, SMALL))[0][0].commit == COMMIT
    assert standin.asked[f"config small@{COMMIT}"] == 1  # the commit is the same: its file as well
    standin.commit = LATER
    assert (await files(due, SMALL))[0][0].commit == LATER


async def test_a_commit_is_never_asked_about_again(settings, standin):
    due = settings(hub_refresh_s=0)
    pinned = HubName("acme/small", COMMIT)
    await files(due, pinned)
    await files(due, pinned)
    assert standin.asked[f"model small@{COMMIT}"] == 1


async def test_while_the_hub_is_away_the_last_known_serves(settings, standin):
    due = settings(hub_refresh_s=0)
    await files(due, SMALL)
    standin.broken = True
    [(found, may_be_old)] = await files(due, SMALL)
    assert (found.commit, may_be_old) == (COMMIT, True)


async def test_offline_what_is_known_serves_and_nothing_is_asked(settings, standin):
    await files(settings(), SMALL)
    before = standin.asked.total()
    [(found, _)] = await files(settings(hub_offline=True, hub_refresh_s=0), SMALL)
    assert found.commit == COMMIT
    with pytest.raises(HubRefuses, match="HEADROOM_HUB_OFFLINE"):
        await files(settings(hub_offline=True), HubName("acme/other"))
    assert standin.asked.total() == before


async def test_damaged_and_unwritable_caches_do_no_harm(settings, tmp_path: Path):
    await files(settings(), SMALL)
    [kept] = (tmp_path / "hub").glob("*.json")
    for damage in (b"", b"{", b"[]", b'{"commit": 1}', kept.read_bytes().replace(b'"0', b'"x')):
        kept.write_bytes(damage)
        assert (await files(settings(), SMALL))[0][0].commit == COMMIT
    (tmp_path / "file").touch()
    unwritable = settings(hub_cache_directory=tmp_path / "file" / "hub")
    assert (await files(unwritable, SMALL))[0][0].commit == COMMIT


async def test_a_renamed_model_is_followed_on_the_same_host(settings):
    assert (await files(settings(), HubName("acme/renamed")))[0][0].commit == COMMIT


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing", "has no model acme/missing"),
        ("private", "has no model acme/private, or it is private"),
        ("gated", "acme/gated is gated.*HEADROOM_HUB_TOKEN"),
        ("closed", "acme/closed is gated"),
        ("no-config", r"has no config\.json"),
        ("no-json", "not valid JSON"),
        ("huge", "more than 2 MB"),
    ],
)
async def test_models_that_cannot_be_had_are_told(settings, name, told):
    with pytest.raises(HubRefuses, match=told):
        await files(settings(), HubName(f"acme/{name}"))


async def test_an_unknown_revision_is_told(settings):
    with pytest.raises(HubRefuses, match="acme/small has no revision v9"):
        await files(settings(), HubName("acme/small", "v9"))


async def test_a_refusal_is_remembered_for_a_while(settings, standin):
    hub = Hub(settings())
    for _ in range(3):
        with pytest.raises(HubRefuses):
            await hub.files(HubName("acme/missing"))
    await hub.stop()
    assert standin.asked["model missing@main"] == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("elsewhere", "another host"),
        ("round", "too often"),
        ("limited", "answers 429"),
        ("page", "not answer like a Hub"),
        ("no-commit", "not answer like a Hub"),
        ("slow", "within 0.3 s"),
    ],
)
async def test_strange_hubs_are_away(settings, name, told):
    with pytest.raises(HubAway, match=told):
        await files(settings(hub_timeout_s=0.3), HubName(f"acme/{name}"))


async def test_a_hub_that_is_away_is_left_alone_for_a_while(settings, standin):
    standin.broken = True
    hub = Hub(settings())
    for name in ("a/b", "a/c", "a/d"):
        with pytest.raises(HubAway, match="answers 500"):
            await hub.files(HubName(name))
    await hub.stop()
    assert standin.asked.total() == 1


async def test_a_token_opens_what_its_account_may_read(settings):
    [(found, _)] = await files(settings(hub_token=TOKEN), HubName("acme/private"))
    assert found.commit == COMMIT


async def test_a_token_that_is_no_longer_good_is_told(settings):
    with pytest.raises(HubAway, match="HEADROOM_HUB_TOKEN"):
        await files(settings(hub_token="old"), SMALL)


async def test_nobody_there(settings):
    with pytest.raises(HubAway, match="does not answer"):
        await files(settings(hub_endpoint="http://127.0.0.1:1"), SMALL)


async def test_so_many_models_are_asked_about_at_once(settings):
    let_go = asyncio.Event()

    async def silent(request: httpx.Request) -> httpx.Response:
        await let_go.wait()
        return httpx.Response(404)

    hub = Hub(settings(), httpx.MockTransport(silent))
    asked = [asyncio.create_task(hub.files(HubName(f"acme/model-{n}"))) for n in range(60)]
    # What is kept on disk is looked at first, which takes them any time and order.
    first = asyncio.as_completed(asked, timeout=600)
    for _ in range(20):
        with pytest.raises(HubAway, match="waits for"):
            await next(first)
    let_go.set()
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, HubRefuses) for one in told) == 40
    assert sum(isinstance(one, HubAway) for one in told) == 20
    await hub.stop()


async def test_a_packed_answer_is_not_unpacked(settings):
    def packed(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "identity"
        return httpx.Response(
            200, headers={"content-encoding": "gzip"}, content=gzip.compress(b"{}")
        )

    hub = Hub(settings(), httpx.MockTransport(packed))
    with pytest.raises(HubRefuses, match="packed"):
        await hub.files(HubName("acme/small"))
    await hub.stop()
