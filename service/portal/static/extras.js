// Sliders beside numbers, terms that explain themselves to a pointer, and scenarios kept in the browser.
"use strict";

// A slider has this many steps, each as large as a share of the number.
const STEPS = 100;
const KEPT = "headroom-scenarios";
const MOST_KEPT = 8;

for (const input of document.querySelectorAll("input[data-slider]")) {
  const slider = document.createElement("input");
  const most = Math.log2(Number(input.dataset.slider));
  slider.type = "range";
  slider.max = String(STEPS);
  slider.setAttribute("aria-label", `${document.querySelector(`label[for="${input.id}"]`).textContent}, slider`);
  const follow = () => {
    // As many as fit are the most.
    const number = input.value === "max" ? 2 ** most : Number(input.value);
    slider.value = String((STEPS * Math.log2(Math.max(number, 1))) / most);
    slider.setAttribute("aria-valuetext", input.value);
  };
  slider.addEventListener("input", () => {
    const exact = 2 ** ((most * Number(slider.value)) / STEPS);
    // Two digits are enough, and powers of two are what people mean.
    const power = 2 ** Math.round(Math.log2(exact));
    input.value = String(Math.abs(exact / power - 1) < 0.03 ? power : Number(exact.toPrecision(exact < 10 ? 1 : 2)));
    slider.setAttribute("aria-valuetext", input.value);
  });
  input.addEventListener("input", follow);
  input.after(slider);
  follow();
}

// A long number is told in words beside it.
const SIZES = [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]];
for (const hint of document.querySelectorAll("[data-counts]")) {
  const input = document.getElementById(hint.dataset.counts);
  input.addEventListener("input", () => {
    const [size, word] = SIZES.find(([one]) => Number(input.value) >= one) ?? [1, ""];
    hint.textContent = `${Number((Number(input.value) / size).toPrecision(3)).toLocaleString("en")} ${word}`.trim();
  });
}

// Terms open by a click or a key without this; a pointer that rests on one opens it, too.
let resting = 0;
document.addEventListener("pointerover", (event) => {
  const term = event.target.closest?.(".term-of");
  clearTimeout(resting);
  if (!term || event.pointerType !== "mouse") return;
  const meaning = document.getElementById(term.getAttribute("popovertarget"));
  if (meaning.matches(":popover-open")) return;
  resting = setTimeout(() => {
    meaning.showPopover({ source: term });
    term.addEventListener("pointerleave", () => meaning.hidePopover(), { once: true });
  }, 350);
});

function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one?.query === "string") : [];
  } catch {
    return [];
  }
}

function keep(scenarios) {
  try {
    localStorage.setItem(KEPT, JSON.stringify(scenarios.slice(-MOST_KEPT)));
  } catch {
    // A browser that keeps nothing still shows them until the page is left.
  }
  list(scenarios.slice(-MOST_KEPT));
}

function list(scenarios) {
  const place = document.getElementById("scenarios");
  if (!place) return;
  place.hidden = scenarios.length === 0;
  const items = document.createElement("ul");
  scenarios.forEach((one, index) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `./?${one.query}`;
    link.textContent = one.name;
    const brief = document.createElement("span");
    brief.textContent = [one.load, one.brief].filter(Boolean).join(": ");
    const away = document.createElement("button");
    away.type = "button";
    away.className = "second";
    away.textContent = "Remove";
    away.setAttribute("aria-label", `Remove ${one.name}`);
    away.addEventListener("click", () => keep(scenarios.filter((_, other) => other !== index)));
    item.append(link, brief, away);
    items.append(item);
  });
  const all = document.createElement("a");
  const others = scenarios.filter((one) => told(one.query) !== told(place.dataset.query));
  all.href = beside([place.dataset, ...others.slice(-3)]);
  all.textContent = others.length ? `Compare side by side, all with ${place.dataset.load}` : "Compare side by side";
  place.replaceChildren("Your scenarios, kept in this browser:", items, all);
}

const VARIED = ["model", "hub", "accelerator", "accelerator_count", "weights", "region"];

// What a comparison can tell apart: plans that differ in their load alone are one.
function told(query) {
  const fields = new URLSearchParams(query);
  return VARIED.map((name) => fields.get(name)).join("|");
}

// The link to a comparison of plans under the load of the first: what differs from it stands under a number.
function beside([first, ...others]) {
  const fields = new URLSearchParams(first.query);
  others.forEach((one, index) => {
    const theirs = new URLSearchParams(one.query);
    for (const name of ["model", "accelerator", "accelerator_count", "weights", "region"]) {
      const value = theirs.get(name) ?? (name === "model" && theirs.has("hub") ? `hf:${theirs.get("hub")}` : null);
      if (value !== null && (value !== fields.get(name) || name === "accelerator")) fields.set(`${name}_${index + 2}`, value);
    }
  });
  return `compare?${fields}`;
}

function ready() {
  const place = document.getElementById("scenarios");
  const button = document.getElementById("keep");
  if (!place || !button) return;
  list(kept());
  button.hidden = false;
  button.addEventListener("click", () => {
    const { name, load, brief, query } = place.dataset;
    keep([...kept().filter((one) => one.query !== query), { name, load, brief, query }]);
    button.textContent = "Kept";
  });
}
document.addEventListener("answered", ready);
ready();
