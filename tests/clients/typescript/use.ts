// What a user of the generated client writes; it is type-checked and run against a live service.
import assert from "node:assert/strict";

import { client } from "./headroom/client.gen.js";
import * as headroom from "./headroom/index.js";

const [address, key, sweepId] = process.argv.slice(2);
assert(address && key && sweepId);
client.setConfig({ baseUrl: address });

const question: headroom.InferenceRequest = {
  model: "meta-llama/Llama-3.1-70B",
  precision: { weights: "bf16" },
  accelerator: "nvidia-h100-sxm-80gb",
  accelerator_count: 8,
  region: "aws/eu-north-1",
  workload: { input_tokens: 2048, output_tokens: 256, concurrency: 32 },
};

// An estimate, whose figures are intervals.
const estimate = await headroom.createInferenceEstimate({ body: question, throwOnError: true });
assert(estimate.data.memory.fits);
const tpot = estimate.data.latency.tpot_s; // null of models that generate nothing
if (tpot === null) throw new Error("no tokens are generated");
const { low, value, high } = tpot;
assert(low < value && value < high);

// The same as a link: flat parameters, those of nested objects too.
const memory = await headroom.getInferenceMemory({
  query: {
    model: "llama-3.1-70b",
    accelerator: "nvidia-h100-sxm-80gb",
    accelerator_count: 8,
    speculative_draft_model: "llama-3.1-8b",
    speculative_draft_precision_weights: "fp8",
  },
  throwOnError: true,
});
assert(memory.data.total_bytes.value > 0);

// A comparison, as rows and as the table that spreadsheets open.
const comparison: headroom.CompareRequest = {
  models: ["llama-3.1-8b"],
  accelerators: ["nvidia-l40s-48gb", "nvidia-h100-sxm-80gb"],
  regions: ["country/SE"],
};
const compared = await headroom.createComparison({ body: comparison, throwOnError: true });
assert.equal(compared.data.rows.length, 2);
const table = await headroom.createComparison({
  body: comparison,
  headers: { Accept: "text/csv" },
  parseAs: "text",
  throwOnError: true,
});
assert.equal(String(table.data).trim().split("\n").length, 3);

// A refusal is a problem with a type to branch on and a pointer to each field.
const refused = await headroom.createInferenceEstimate({
  body: { ...question, accelerator: "nvidia-h10" },
});
assert(refused.error && refused.response?.status === 422);
assert.equal(refused.error.type, "/problems/invalid-request");
assert.equal(refused.error.errors?.[0]?.pointer, "/accelerator");

// A batch, in which each item is answered or refused by itself.
const batch = await headroom.createEstimateBatch({
  body: { requests: [question, { ...question, model: "no-such-model" }] },
  throwOnError: true,
});
const [answered, denied] = batch.data.items;
assert(answered?.answer && answered.errors.length === 0);
assert.equal(denied?.errors[0]?.pointer, "/model");

// A page of the catalog, and the next one.
const first = await headroom.listRegions({ query: { limit: 2 }, throwOnError: true });
assert(first.data.next_cursor);
const next = await headroom.listRegions({
  query: { limit: 2, cursor: first.data.next_cursor },
  throwOnError: true,
});
assert.notEqual(next.data.items[0]?.id, first.data.items[0]?.id);

// Entries of one's own, sent with a key.
const sent = await headroom.createCatalogImport({
  auth: key,
  body: {
    sources: [
      {
        id: "own/meter",
        title: "Meter readings of hall 3",
        publisher: "Facilities",
        year: 2026,
        url: "https://example.org/meters",
        licence: "internal",
        retrieved: "2026-11-20",
        kind: "primary",
      },
    ],
    regions: [
      {
        id: "own/hall-3",
        name: "Our hall 3",
        kind: "cloud",
        country: "SE",
        parent: "country/SE",
        figures: {
          pue_ratio: { value: 1.12, year: 2026, source: "own/meter", kind: "measured", note: "2026" },
        },
      },
    ],
  },
  query: { reason: "meters of October", own: "true" },
  throwOnError: true,
});
assert.equal(sent.response.status, 200);
const hall = await headroom.getRegion({ auth: key, path: { id: "own/hall-3" }, throwOnError: true });
assert.equal(hall.data.name, "Our hall 3");
const hidden = await headroom.getRegion({ path: { id: "own/hall-3" } });
assert.equal(hidden.error?.status, 404);

// The progress of a sweep, as it is told.
const watched = await headroom.watchSweep({ path: { id: sweepId } });
let last: headroom.SweepNews | undefined;
for await (const news of watched.stream) {
  assert(news.event !== "reconnect", news.event === "reconnect" ? news.detail : "");
  last = news;
}
assert(last);
assert.equal(last.event, "finished");
assert.equal(last.status, "succeeded");
const rows = await headroom.getSweepResults({ path: { id: sweepId }, throwOnError: true });
assert.equal(rows.data.rows, last.progress.rows);

console.log("works");
