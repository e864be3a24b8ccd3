// Answers in place what a link would answer as well: the pages work without this file.
"use strict";

const form = document.getElementById("question");
const notice = document.getElementById("notice");
const OLD = "This is the answer to your previous question.";
// Typing and sliding are answered once they pause, and waiting is told once it is noticed [ms].
const PAUSE = 120;
const NOTICED = 400;
// What answers and searches usually take, before one was waited for [ms].
const USUAL = 1000;
const USUAL_SEARCH = 4000;
let asking = null;
let pausing = 0;
let shown = location.search;
let asked = unsearched(query());
// Whether the question has changed since the last entry of the history.
let going = false;

function query(submitter) {
  const fields = new URLSearchParams(new FormData(form, submitter));
  for (const [name, value] of [...fields]) {
    const field = form.elements[name];
    if (value.trim() === "") fields.delete(name);
    // What was chosen from suggestions goes by its id.
    else if (field?.dataset?.collection && value === field.dataset.text) fields.set(name, field.dataset.value);
  }
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

// A question by what is asked of the plan, whether or not options were searched for.
function unsearched(search) {
  const fields = new URLSearchParams(search);
  fields.delete("recommend");
  return fields.toString();
}

const address = (search) => `${form.getAttribute("action")}?${search}`;
const results = () => document.getElementById("results");

// An answer that is not that of the question is grey, and says so.
function age(reason) {
  const here = results();
  let note = here.querySelector(".old-note");
  if (!note) {
    note = document.createElement("p");
    note.className = "old-note";
    here.prepend(note);
  }
  note.textContent = reason;
  here.classList.add("old");
}

function tell(text, ...more) {
  notice.classList.toggle("quiet", more.length === 0);
  notice.replaceChildren(text, ...more);
}

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

// How long the last answer of a kind took [ms], by which the share of the next one is told.
const took = {
  key: (said) => `headroom-took:${form.dataset.answer}:${said}`,
  get(said) {
    try { return Number(localStorage.getItem(this.key(said))) || (said === "Searching" ? USUAL_SEARCH : USUAL); } catch { return USUAL; }
  },
  set(said, ms) {
    try { localStorage.setItem(this.key(said), String(Math.round(ms))); } catch { /* Then it is told by the usual time. */ }
  },
};

function wait(search) {
  const began = performance.now();
  const counted = document.createElement("span");
  const said = new URLSearchParams(search).has("recommend") ? "Searching" : "Computing";
  const bar = document.createElement("progress");
  const usual = took.get(said);
  let done = 0;
  const count = () => {
    const passed = performance.now() - began;
    // What takes longer than usual is not nearly done: the rest of the bar is for as long as it takes.
    bar.value = done || (passed < usual ? (0.9 * passed) / usual : 1 - (0.1 * usual) / passed);
    const left = Math.ceil((done ? passed * (1 / done - 1) : usual - passed) / 1000);
    counted.textContent = left > 0 ? `about ${left} s left` : `${Math.round(passed / 1000)} s, longer than usual`;
  };
  const start = setTimeout(() => {
    count();
    counted.setAttribute("aria-hidden", "true");
    bar.setAttribute("aria-label", said);
    tell(`${said} …`, bar, counted, button("Cancel", () => asking?.abort("cancelled")));
  }, NOTICED);
  const every = setInterval(count, 200);
  return {
    // A search says how far it is.
    told(ratio) { done = ratio; },
    ended(answered) {
      clearTimeout(start);
      clearInterval(every);
      if (answered) took.set(said, performance.now() - began);
    },
  };
}

// An answer, whether it comes at once or after events that say how far its search is.
async function received(answer, told) {
  const type = answer.headers.get("content-type") ?? "";
  if (!type.startsWith("text/event-stream")) return { html: await answer.text(), status: answer.status };
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the answer ended early");
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      const news = data ? JSON.parse(data.slice("data: ".length)) : {};
      if (news.html !== undefined) return news;
      if (news.done_ratio) told(news.done_ratio);
    }
  }
}

async function show(search) {
  clearTimeout(pausing);
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  asked = unsearched(search);
  results().setAttribute("aria-busy", "true");
  const waited = wait(search);
  let answeredInFull = false;
  try {
    const headers = new URLSearchParams(search).has("recommend") ? { Accept: "text/event-stream" } : {};
    const answer = await fetch(`${form.dataset.answer}?${search}`, { signal: mine.signal, headers });
    const { html, status } = await received(answer, waited.told);
    const found = new DOMParser().parseFromString(html, "text/html");
    const answered = found.getElementById("results");
    if (!answered) throw new Error(answer.statusText);
    mark(found);
    answeredInFull = status === 200;
    if (answeredInFull) take(answered, found.title, search);
    else {
      age(`${OLD} Fix the marked fields to get a new one.`);
      tell([...form.querySelectorAll(".errors li")].map((one) => one.textContent).join("; "));
    }
  } catch (problem) {
    if (mine.signal.aborted && mine.signal.reason !== "cancelled") return;
    asked = null;
    const stopped = mine.signal.aborted;
    age(stopped ? `${OLD} The new one was cancelled.` : OLD);
    if (stopped) tell("Cancelled.");
    else tell("The service cannot be reached. ", button("Try again", () => show(search)));
  } finally {
    waited.ended(answeredInFull);
    if (asking === mine) results().removeAttribute("aria-busy");
  }
}

// The chart of the earlier question stays, greyed, until that of the new one is there: nothing jumps.
function bridge(charts) {
  const kind = (figure) => figure.dataset.chart.split("?")[0];
  const before = new Map([...charts].map((one) => [kind(one), one.querySelector(":scope > :is(picture, .drawn)")]));
  for (const figure of results().querySelectorAll("figure[data-chart]")) {
    const [old, picture] = [before.get(kind(figure)), figure.querySelector(":scope > picture")];
    const image = picture?.querySelector("img");
    const seen = old?.matches(".drawn") || old?.querySelector("img")?.naturalWidth > 0;
    if (!seen || !image) continue;
    const shown = document.createElement("div");
    shown.className = "before";
    shown.inert = true;
    shown.append(old);
    picture.before(shown);
    for (const settled of ["load", "error"]) image.addEventListener(settled, () => shown.remove(), { once: true });
  }
}

function take(answered, title, search) {
  const advice = document.getElementById("advice")?.closest("section");
  const charts = results().querySelectorAll("figure[data-chart]");
  results().replaceWith(answered);
  bridge(charts);
  // Options of an earlier question stay, and say so, until they are searched again.
  if (advice && !document.getElementById("advice")) {
    if (!advice.classList.contains("outdated")) {
      advice.classList.add("outdated");
      const note = document.createElement("p");
      note.className = "old-note";
      note.append("These are options for your previous question. ", button("Search again", () => {
        form.requestSubmit(document.getElementById("recommend"));
      }));
      advice.prepend(note);
    }
    answered.querySelector(".verdict")?.after(advice);
  }
  document.title = title;
  tell([...answered.querySelectorAll("h1, section:not(.outdated) > #advice, section:not(.outdated) > #advice + p")]
    .map((one) => one.textContent).join(" "));
  if (location.search !== `?${search}`) {
    if (going) history.replaceState(null, "", address(search));
    else history.pushState(null, "", address(search));
    going = true;
  }
  shown = location.search;
  document.dispatchEvent(new CustomEvent("answered"));
}

// Marks what is wrong without touching what has been typed meanwhile.
function mark(found) {
  for (const old of form.querySelectorAll(".errors, .wrong")) old.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
  const problems = [...found.querySelectorAll("#problems > div")];
  form.classList.toggle("refused", problems.length > 0);
  if (!problems.length) return;
  const list = document.createElement("div");
  list.className = "errors";
  list.setAttribute("role", "alert");
  const head = document.createElement("h3");
  head.textContent = "Fix these fields";
  const items = document.createElement("ul");
  list.append(head, items);
  for (const problem of problems) {
    const item = document.createElement("li");
    items.append(item);
    const name = problem.dataset.field;
    const field = name && form.elements[name];
    if (!field) {
      item.append(...(name ? [`“${name}”: `] : []), ...problem.childNodes);
      continue;
    }
    const link = document.createElement("a");
    link.href = `#${name}`;
    link.textContent = document.querySelector(`label[for="${name}"]`)?.textContent ?? name;
    item.append(link);
    const reason = document.createElement("span");
    reason.className = "wrong";
    reason.id = `${name}-wrong`;
    reason.append(...problem.childNodes);
    // A suggestion repairs the question in place.
    for (const repair of reason.querySelectorAll("a"))
      repair.addEventListener("click", (event) => {
        event.preventDefault();
        field.value = new URLSearchParams(new URL(repair.href).search).get(name);
        delete field.dataset.text;
        show(query());
      });
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", reason.id);
    field.closest("details")?.setAttribute("open", "");
    field.closest(".field").append(reason);
  }
  form.querySelector("h2").after(list);
}

function ready() {
  const share = document.getElementById("share");
  if (!share || !navigator.clipboard) return;
  share.hidden = false;
  share.addEventListener("click", async () => {
    await navigator.clipboard.writeText(new URL(address(query()), location.href).href);
    share.textContent = "Link copied";
    tell("Link copied");
  });
}

function changed() {
  clearTimeout(pausing);
  // What was said of the question before is over.
  if (!notice.classList.contains("quiet")) tell("");
  if (unsearched(query()) === asked) return;
  const empty = [...form.elements].find((one) => one.willValidate && !one.checkValidity());
  if (empty) {
    asking?.abort();
    asked = null;
    const label = document.querySelector(`label[for="${empty.id}"]`)?.textContent ?? "the marked field";
    age(`${OLD} “${label}”: ${empty.validationMessage}`);
    return;
  }
  age(OLD);
  pausing = setTimeout(() => show(query()), PAUSE);
}

form.addEventListener("input", changed);
form.addEventListener("change", () => {
  changed();
  going = false;
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  going = false;
  await show(query(event.submitter));
  // A recommendation is below the estimate.
  const answer = document.querySelector("section:not(.outdated) > #advice") ?? results();
  const wrong = form.querySelector(".errors");
  if (wrong) wrong.scrollIntoView({ block: "nearest" });
  else if (answer.getBoundingClientRect().top > innerHeight / 2) answer.scrollIntoView();
});
// Enter presses the first button of a form, but some fields only matter to another.
form.addEventListener("keydown", (event) => {
  const pressed = event.target.closest("[data-button]")?.dataset.button;
  if (event.key !== "Enter" || event.defaultPrevented || !pressed) return;
  event.preventDefault();
  form.requestSubmit(document.getElementById(pressed));
});
// The search for options shows that it works, and can be cancelled.
document.addEventListener("click", (event) => {
  if (!event.target.closest("#next") || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  form.requestSubmit(document.getElementById("recommend"));
});
// The map is for what the form holds now.
form.addEventListener("click", (event) => {
  const map = event.target.closest("[data-map]");
  if (map) map.href = `${map.dataset.map}?${query()}`;
});
// Links within the page go through the history as well; they ask nothing.
addEventListener("popstate", () => {
  if (location.search !== shown) location.reload();
});
document.addEventListener("answered", ready);
ready();
