// Fields that suggest: a combobox (ARIA 1.2) over each input that names a list of the catalog.
// Without this file they are plain text, and the service says what may have been meant.
"use strict";

// Typing is answered once it pauses [ms].
const QUIET = 120;

// Pictures of hardware by its form: a card with fans, a module on its board, a chip with pins, a wafer.
const PICTURES = {
  card: "M1 4v13M1 6h21v9H1M5 15v2h8v-2M7 10.5a2 2 0 1 0 4 0a2 2 0 1 0-4 0M14 10.5a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
  module: "M2 3h20v16H2zM8 7h8v8H8zM4.5 7v8M19.5 7v8M5 5.2h.1M19 5.2h.1M5 16.8h.1M19 16.8h.1",
  chip: "M6 5h12v12H6zM9 8h6v6H9zM9 5V2M12 5V2M15 5V2M9 20v-3M12 20v-3M15 20v-3M6 8H3M6 11H3M6 14H3M21 8h-3M21 11h-3M21 14h-3",
  wafer: "M3 11a9 9 0 1 0 18 0a9 9 0 1 0-18 0M6.5 5v12M12 2v18M17.5 5v12M4 7h16M3 11h18M4 15h16",
};
const SVG = "http://www.w3.org/2000/svg";

function pictured(form) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", "0 0 24 22");
  picture.setAttribute("class", `hardware ${form}`);
  picture.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PICTURES[form]);
  picture.append(path);
  return picture;
}

for (const input of document.querySelectorAll("input[data-collection]")) suggest(input);

function suggest(input) {
  const list = document.createElement("ul");
  list.className = "options";
  list.id = `${input.id}-options`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", document.querySelector(`label[for="${input.id}"]`).textContent);
  input.after(list);
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", list.id]])
    input.setAttribute(name, value);
  const hint = document.getElementById(`${input.id}-detail`);
  let found = [];
  let at = -1;
  let asking = null;
  let pausing = 0;

  const close = () => {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  function draw() {
    list.replaceChildren();
    let group = null;
    found.forEach((one, index) => {
      if (one.group !== group) {
        group = one.group;
        const head = document.createElement("li");
        head.className = "group";
        head.setAttribute("role", "presentation");
        head.textContent = group;
        list.append(head);
      }
      const item = document.createElement("li");
      item.id = `${list.id}-${index}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(index === at));
      const detail = document.createElement("small");
      detail.textContent = one.detail;
      if (PICTURES[one.form]) item.append(pictured(one.form));
      item.append(one.text, detail);
      // The field keeps the focus.
      item.addEventListener("mousedown", (event) => event.preventDefault());
      item.addEventListener("click", () => take(one));
      list.append(item);
    });
    list.hidden = found.length === 0;
    input.setAttribute("aria-expanded", String(found.length > 0));
    if (at >= 0) {
      input.setAttribute("aria-activedescendant", `${list.id}-${at}`);
      document.getElementById(`${list.id}-${at}`).scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }

  function take(one) {
    input.value = one.text;
    input.dataset.text = one.text;
    input.dataset.value = one.value;
    if (hint) hint.textContent = one.detail;
    close();
    input.dispatchEvent(new Event("change", { bubbles: true }));
  }

  async function look(typed) {
    asking?.abort();
    asking = new AbortController();
    try {
      const address = `suggestions/${input.dataset.collection}?${new URLSearchParams(typed ? { q: typed } : {})}`;
      const answer = await fetch(address, { signal: asking.signal });
      if (!answer.ok || document.activeElement !== input) return;
      found = grouped(await answer.json());
      at = -1;
      draw();
    } catch {
      close();
    }
  }

  input.addEventListener("input", (event) => {
    // The question changes once something is chosen or the field is left.
    event.stopPropagation();
    clearTimeout(pausing);
    pausing = setTimeout(() => look(input.value.trim()), QUIET);
  });
  input.addEventListener("click", () => {
    if (list.hidden) look("");
    input.select();
  });
  input.addEventListener("blur", () => { clearTimeout(pausing); asking?.abort(); close(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) return void look(input.value === input.dataset.text ? "" : input.value.trim());
      const step = event.key === "ArrowDown" ? 1 : -1;
      at = (at + step + found.length) % found.length;
      draw();
    } else if (event.key === "Enter" && at >= 0 && !list.hidden) {
      event.preventDefault();
      take(found[at]);
    }
  });
}

// Groups together, each where its first suggestion stood.
function grouped(found) {
  const groups = new Map();
  for (const one of found) groups.set(one.group, [...(groups.get(one.group) ?? []), one]);
  return [...groups.values()].flat();
}
