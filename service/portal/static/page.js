// Answers in place what a link would answer as well: the page works without this file.
"use strict";

const form = document.getElementById("question");
const said = document.getElementById("status");
let asking = null;
let answered = location.search;

function query(submitter) {
  const fields = new URLSearchParams(new FormData(form, submitter));
  for (const [name, value] of [...fields]) if (value === "") fields.delete(name);
  return fields.toString();
}

async function show(search, remember) {
  asking?.abort();
  asking = new AbortController();
  const results = document.getElementById("results");
  results.setAttribute("aria-busy", "true");
  said.textContent = "Computing …";
  try {
    const answer = await fetch(`./?${search}`, { signal: asking.signal });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const errors = found.querySelector(".errors");
    if (errors) {
      location.search = search;
      return;
    }
    results.replaceWith(found.getElementById("results"));
    for (const told of form.querySelectorAll(".errors, .wrong")) told.remove();
    for (const field of form.querySelectorAll("[aria-invalid]")) {
      field.removeAttribute("aria-invalid");
      field.removeAttribute("aria-describedby");
    }
    document.title = found.title;
    said.textContent = document.getElementById("verdict").textContent;
    if (remember) history.pushState(null, "", `./?${search}`);
    answered = location.search;
    ready();
  } catch (problem) {
    if (problem.name === "AbortError") return;
    results.removeAttribute("aria-busy");
    said.textContent = "The service cannot be reached.";
  }
}

function ready() {
  const share = document.getElementById("share");
  if (!share || !navigator.clipboard) return;
  share.hidden = false;
  share.addEventListener("click", async () => {
    await navigator.clipboard.writeText(new URL(`./?${query()}`, location.href).href);
    said.textContent = share.textContent = "Link copied";
  });
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  show(query(event.submitter), true);
});
form.addEventListener("change", () => {
  if (form.checkValidity()) show(query(), true);
});
// Links within the page go through the history as well; they ask nothing.
addEventListener("popstate", () => {
  if (location.search !== answered) location.reload();
});
ready();
