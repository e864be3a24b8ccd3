// <headroom-estimate model="…" accelerator="…"> for any page: fit, speed and footprint of a deployment.
// Attributes are the API's own names for links, with hyphens for underscores: accelerator-count,
// input-tokens, output-tokens, concurrency, weights, region … `server` names the service; without it, the
// one that this file came from is asked.
const OWN = new URL(".", import.meta.url).href.replace(/portal\/$/, "");
const NOT_ASKED = new Set(["server", "theme", "lang", "class", "id", "style", "title", "hidden", "slot"]);

const STYLE = `
:host { display: block; max-width: 32rem; font: 16px/1.5 system-ui, sans-serif; color-scheme: light dark; }
:host([hidden]) { display: none; }
:host([theme="light"]) { color-scheme: light; }
:host([theme="dark"]) { color-scheme: dark; }
section {
  padding: 1rem 1.25rem; border-radius: 0.5rem;
  color: light-dark(#1b1b1f, #eceef2); background: light-dark(#fff, #17181c);
  border: 1px solid light-dark(#d3d6dc, #3a3d45);
}
h2 { margin: 0; font-size: 1.1rem; }
.fits { color: light-dark(#146c2e, #6fd08c); }
.short { color: light-dark(#b42318, #ff9d92); }
p { margin: 0.25rem 0 0; font-size: 0.9rem; color: light-dark(#53565f, #a9adb8); }
dl { display: grid; grid-template-columns: 1fr auto; gap: 0.25rem 1rem; margin: 0.75rem 0; }
dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; }
dd span { display: block; color: light-dark(#53565f, #a9adb8); font-size: 0.85rem; white-space: nowrap; }
a { color: light-dark(#005a9c, #8cc4ff); }
`;

const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** Lines of the table: what it is called, where it stands in the answer, its factor and its unit. */
const LINES = [
  ["Time to first token", ["latency", "ttft_s"], 1e3, "ms"],
  ["Time per output token", ["latency", "tpot_s"], 1e3, "ms"],
  ["Output, all users", ["latency", "output_tokens_per_s"], 1, "tokens/s"],
  ["Energy per request", ["energy", "it_energy_per_request_wh"], 1, "Wh"],
  ["Emissions of 1,000 output tokens", ["impacts", "per_1k_tokens", "carbon", "total_gco2e"], 1, "g CO₂e"],
  ["Water of 1,000 output tokens", ["impacts", "per_1k_tokens", "water", "total_l"], 1e3, "mL"],
];

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

class HeadroomEstimate extends HTMLElement {
  #asking = null;
  #waiting = false;

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).append(element("style", STYLE), document.createElement("section"));
    this.shadowRoot.lastChild.setAttribute("aria-live", "polite");
    // Any attribute may be a field of the question, so that no list of them could be complete.
    new MutationObserver(() => this.#soon()).observe(this, { attributes: true });
  }

  connectedCallback() { this.#soon(); }
  disconnectedCallback() { this.#asking?.abort(); }

  #soon() {
    if (this.#waiting || !this.isConnected) return;
    this.#waiting = true;
    queueMicrotask(() => { this.#waiting = false; this.#ask(); });
  }

  #query() {
    const fields = new URLSearchParams();
    for (const { name, value } of this.attributes)
      if (!NOT_ASKED.has(name) && !/^(aria|data|on)/.test(name)) fields.set(name.replaceAll("-", "_"), value);
    return fields;
  }

  async #ask() {
    this.#asking?.abort();
    this.#asking = new AbortController();
    const server = new URL(this.getAttribute("server") ?? OWN, document.baseURI);
    if (!server.pathname.endsWith("/")) server.pathname += "/";
    const fields = this.#query();
    try {
      const link = new URL(`v1/estimates/inference?${fields}`, server);
      const response = await fetch(link, { signal: this.#asking.signal, credentials: "omit" });
      const answer = await response.json();
      if (response.ok) this.#show(answer, new URL(`./?${fields}`, server));
      else this.#refuse(answer.errors?.map((one) => `${one.pointer} ${one.detail}`) ?? [answer.detail]);
    } catch (problem) {
      if (problem.name !== "AbortError") this.#refuse(["The service cannot be reached."]);
    }
  }

  #show(answer, page) {
    const { memory, deployment } = answer;
    const gigabytes = (bytes) => `${number.format(bytes / 1e9)} GB`;
    const share = `${gigabytes(memory.total_bytes.value)} of ${gigabytes(memory.capacity_bytes)}`;
    const table = document.createElement("dl");
    for (const [label, place, factor, unit] of LINES) {
      const found = place.reduce((part, key) => part?.[key], answer);
      if (found == null) continue;
      const [value, low, high] = [found.value, found.low, found.high].map((one) => number.format(one * factor));
      const shown = element("dd", `${value} ${unit} `);
      shown.append(element("span", `${low} … ${high}`));
      table.append(element("dt", label), shown);
    }
    this.#replace(
      element("h2", `${memory.fits ? "It fits" : "It does not fit"}: ${share} per accelerator`, {
        class: memory.fits ? "fits" : "short",
      }),
      element("p", `${deployment.model} in ${deployment.precision.weights} on ` +
        `${deployment.accelerator_count} × ${deployment.accelerator} in ${deployment.region}`),
      table,
      element("a", "Sources, charts and what to pick instead", { href: page, target: "_blank", rel: "noopener" }),
      element("p", `Ranges hold in nine cases of ten. Catalog revision ${answer.catalog_revision}.`),
    );
    this.dispatchEvent(new CustomEvent("headroom-answer", { detail: answer, bubbles: true, composed: true }));
  }

  #refuse(reasons) {
    this.#replace(element("h2", "This cannot be answered", { class: "short" }),
      ...reasons.slice(0, 5).map((reason) => element("p", reason)));
  }

  #replace(...parts) { this.shadowRoot.lastChild.replaceChildren(...parts); }
}

if (!customElements.get("headroom-estimate")) customElements.define("headroom-estimate", HeadroomEstimate);
