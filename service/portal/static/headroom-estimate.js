// <headroom-estimate model="…" accelerator="…"> for any page: fit, speed and footprint of a deployment.
// Attributes are the API's own names for links, with hyphens for underscores: accelerator-count,
// input-tokens, output-tokens, concurrency, weights, region … `server` names the service; without it, the
// one that this file came from is asked.
const OWN = new URL(".", import.meta.url).href.replace(/portal\/$/, "");
const NOT_ASKED = new Set(["server", "theme", "lang", "class", "id", "style", "title", "hidden", "slot"]);

// A sheet that is made by script is no inline style, which strict sites forbid.
const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`
:host { display: block; max-width: 512px; color-scheme: light dark; }
:host([hidden]) { display: none; }
:host([theme="light"]) { color-scheme: light; }
:host([theme="dark"]) { color-scheme: dark; }
section {
  /* What the host's page hands down, such as capitals or spaced letters, ends here. */
  all: initial; display: block; font: 16px/1.5 system-ui, sans-serif; color-scheme: inherit; overflow-wrap: anywhere;
  padding: 1em 1.25em; border-radius: 0.5em;
  color: light-dark(#1b1b1f, #eceef2); background: light-dark(#fff, #17181c);
  border: 1px solid light-dark(#d3d6dc, #3a3d45);
}
h2 { margin: 0; font-size: 1.1em; }
.fits { color: light-dark(#146c2e, #6fd08c); }
.short { color: light-dark(#b42318, #ff9d92); }
p { margin: 0.25em 0 0; font-size: 0.9em; color: light-dark(#53565f, #a9adb8); }
dl { margin: 0.75em 0; }
dl div { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1em; padding: 0.125em 0; }
dd { margin: 0 0 0 auto; text-align: right; font-variant-numeric: tabular-nums; }
dd span { display: block; color: light-dark(#53565f, #a9adb8); font-size: 0.85em; }
a { color: light-dark(#005a9c, #8cc4ff); }
`);

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
    const shadow = this.attachShadow({ mode: "open" });
    shadow.adoptedStyleSheets = [STYLE];
    shadow.append(document.createElement("section"));
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
      const link = new URL(`verdict.json?${fields}`, server);
      const response = await fetch(link, { signal: this.#asking.signal, credentials: "omit" });
      const answer = await response.json();
      if (response.ok) this.#show(answer, answer.link === null ? null : new URL(`./?${answer.link}`, server));
      else this.#refuse(answer.errors?.map((one) => `${one.pointer} ${one.detail}`) ?? [answer.detail]);
    } catch (problem) {
      if (problem.name !== "AbortError") this.#refuse(["The service cannot be reached."]);
    }
  }

  #show(answer, page) {
    const table = document.createElement("dl");
    for (const { name, text, range_text: range } of answer.figures) {
      const shown = element("dd", `${text} `);
      if (range) shown.append(element("span", range));
      const row = document.createElement("div");
      row.append(element("dt", name), shown);
      table.append(row);
    }
    this.#replace(
      element("h2", answer.headline, { class: answer.status === "short" ? "short" : "fits" }),
      element("p", `${answer.asked}; ${answer.load}`),
      table,
      // The page takes fewer fields: of a question beyond these it would tell another answer.
      ...(page ? [element("a", "Why, sources, charts and better options", { href: page, target: "_blank", rel: "noopener" })] : []),
      element("p", `Ranges hold in nine cases of ten. Catalog revision ${answer.estimate.catalog_revision}.`),
    );
    this.dispatchEvent(
      new CustomEvent("headroom-answer", { detail: answer.estimate, bubbles: true, composed: true }));
  }

  #refuse(reasons) {
    this.#replace(element("h2", "This cannot be answered", { class: "short" }),
      ...reasons.slice(0, 5).map((reason) => element("p", reason)));
  }

  #replace(...parts) { this.shadowRoot.lastChild.replaceChildren(...parts); }
}

if (!customElements.get("headroom-estimate")) customElements.define("headroom-estimate", HeadroomEstimate);
