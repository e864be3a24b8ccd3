// The same with oazapfts: a function for each operation, and an answer for each status.
import assert from "node:assert/strict";

import * as headroom from "./oazapfts.js";

const [address] = process.argv.slice(2);
assert(address);
headroom.defaults.baseUrl = address;

const question: headroom.InferenceRequest = {
  model: "meta-llama/Llama-3.1-70B",
  precision: { weights: "bf16" },
  accelerator: "nvidia-h100-sxm-80gb",
  accelerator_count: 8,
  region: "aws/eu-north-1",
  workload: { input_tokens: 2048, output_tokens: 256, concurrency: 32 },
};
const estimate = await headroom.createInferenceEstimate(question);
assert(estimate.status === 200);
assert(estimate.data.memory.fits);
assert(estimate.data.latency.tpot_s !== null && estimate.data.latency.tpot_s.value > 0);

const refused = await headroom.createInferenceEstimate({ ...question, accelerator: "nvidia-h10" });
assert(refused.status === 422);
assert.equal(refused.data.errors?.[0]?.pointer, "/accelerator");

const found = await headroom.searchCatalog("H100 80GB SXM5");
assert(found.status === 200);
assert.equal(found.data.items[0]?.id, "nvidia-h100-sxm-80gb");

const batch = await headroom.createEstimateBatch({ requests: [{ ...question }] });
assert(batch.status === 200 && batch.data.items.length === 1);

console.log("works");
