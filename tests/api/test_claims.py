from service.estimation.claims import ClaimEntry, ClaimPage
from tests.api.shapes import validated


async def test_claims_are_listed_and_found(client):
    response = await client.get("/v1/claims")
    page = validated(ClaimPage, response.json())
    again = await client.get("/v1/claims", headers={"If-None-Match": response.headers["etag"]})
    assert again.status_code == 304
    one = validated(ClaimEntry, (await client.get("/v1/claims/kv-cache-13b-batch-32")).json())
    assert one in page["items"]
    assert one["verdict"] == "wrong"
    assert round(one["recomputed"], 1) == 107.4


async def test_unknown_claims_and_filters_are_said(client):
    missing = await client.get("/v1/claims/kv-cache-13b-batch-31")
    assert missing.status_code == 404
    assert "kv-cache-13b-batch-32" in missing.json()["detail"]
    assert (await client.get("/v1/claims?verdict=maybe")).status_code == 422
    assert (await client.get("/v1/claims?q=1")).status_code == 422
