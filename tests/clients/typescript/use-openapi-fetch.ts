// The same with openapi-typescript, with its default options, and openapi-fetch.
import assert from "node:assert/strict";

import createClient from "openapi-fetch";

import type { components, paths } from "./schema.js";

const [address] = process.argv.slice(2);
assert(address);
// Of the forms that answers have, those that are JSON.
type Json = "application/json" | "application/problem+json";
const headroom = createClient<paths, Json>({ baseUrl: address });

// Fields that may be left out need not be there.
const question: components["schemas"]["InferenceRequest"] = {
  model: "meta-llama/Llama-3.1-70B",
  precision: { weights: "bf16" },
  accelerator: "nvidia-h100-sxm-80gb",
  accelerator_count: 8,
  region: "aws/eu-north-1",
  workload: { input_tokens: 2048, output_tokens: 256, concurrency: 32 },
};
const estimate = await headroom.POST("/v1/estimates/inference", { body: question });
assert(estimate.data?.memory.fits);
assert(estimate.data.latency.tpot_s !== null && estimate.data.latency.tpot_s.value > 0);

const memory = await headroom.GET("/v1/memory/inference", {
  params: { query: { model: "llama-3.1-8b", accelerator: "nvidia-l40s-48gb", concurrency: 8 } },
});
assert(memory.data && memory.data.total_bytes.low < memory.data.total_bytes.high);

const refused = await headroom.POST("/v1/estimates/inference", {
  body: { ...question, accelerator: "nvidia-h10" },
});
assert.equal(refused.error?.errors?.[0]?.pointer, "/accelerator");

const accelerator = await headroom.GET("/v1/accelerators/{id}", {
  params: { path: { id: "nvidia-h100-sxm-80gb" } },
});
assert(accelerator.data?.name);

const chosen = await headroom.POST("/v1/recommendations", {
  body: {
    model: "llama-3.1-8b",
    workload: { input_tokens: 512, output_tokens: 128 },
    search: { accelerators: ["nvidia-l40s-48gb"], regions: ["country/SE"] },
  },
});
assert(chosen.data && chosen.data.choices.length > 0);

console.log("works");
