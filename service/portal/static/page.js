// Answers in place what a link would answer as well: the pages work without this file.
"use strict";

const form = document.getElementById("question");
const said = document.getElementById("status");
let asking = null;
let shown = location.search;

function query(submitter) {
  const fields = new URLSearchParams(new FormData(form, submitter));
  for (const [name, value] of [...fields]) if (value.trim() === "") fields.delete(name);
  // A pasted file is a part of the link: without its line breaks it is a third shorter.
  if (fields.has("config")) {
    try {
      fields.set("config", JSON.stringify(JSON.parse(fields.get("config"))));
    } catch {
      // The service says what is wrong with it, and where.
    }
  }
  return fields.toString();
}

const address = (search) => `${form.getAttribute("action")}?${search}`;

async function show(search, remember) {
  asking?.abort();
  asking = new AbortController();
  const results = document.getElementById("results");
  results.setAttribute("aria-busy", "true");
  said.textContent = "Computing …";
  try {
    const answer = await fetch(address(search), { signal: asking.signal });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const answered = found.getElementById("results");
    if (!answered) throw new Error(answer.statusText);
    mark(found);
    results.replaceWith(answered);
    document.title = found.title;
    said.textContent = [...answered.querySelectorAll("h1, #advice + p")]
      .map((one) => one.textContent)
      .join(" ");
    if (remember) history.pushState(null, "", address(search));
    shown = location.search;
    ready();
  } catch (problem) {
    if (problem.name === "AbortError") return;
    results.removeAttribute("aria-busy");
    said.textContent = "The service cannot be reached. Nothing has changed; try again.";
  }
}

// Marks what is wrong without touching what has been typed meanwhile.
function mark(found) {
  for (const old of form.querySelectorAll(".errors, .wrong")) old.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
  for (const theirs of found.querySelectorAll("#question [aria-invalid]")) {
    const ours = document.getElementById(theirs.id);
    const reason = found.getElementById(`${theirs.id}-wrong`);
    if (!ours || !reason) continue;
    ours.setAttribute("aria-invalid", "true");
    ours.setAttribute("aria-describedby", reason.id);
    ours.closest("details")?.setAttribute("open", "");
    ours.after(reason);
  }
  const list = found.querySelector(".errors");
  if (list) form.querySelector("h2").after(list);
}

function ready() {
  const share = document.getElementById("share");
  if (!share || !navigator.clipboard) return;
  share.hidden = false;
  share.addEventListener("click", async () => {
    await navigator.clipboard.writeText(new URL(address(query()), location.href).href);
    said.textContent = share.textContent = "Link copied";
  });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  await show(query(event.submitter), true);
  // On a phone the answer is below the form, and a recommendation is below the estimate.
  const answer = document.getElementById("advice") ?? document.getElementById("results");
  const wrong = form.querySelector(".errors");
  if (wrong) wrong.scrollIntoView({ block: "nearest" });
  else if (answer.getBoundingClientRect().top > innerHeight / 2) answer.scrollIntoView();
});
// Enter presses the first button of a form, but some fields only matter to another.
form.addEventListener("keydown", (event) => {
  const button = event.target.closest("[data-button]")?.dataset.button;
  if (event.key !== "Enter" || !button) return;
  event.preventDefault();
  form.requestSubmit(document.getElementById(button));
});
form.addEventListener("change", () => {
  if (form.checkValidity()) show(query(), true);
});
// Links within the page go through the history as well; they ask nothing.
addEventListener("popstate", () => {
  if (location.search !== shown) location.reload();
});
ready();
