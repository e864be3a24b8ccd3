// Draws a chart anew once somebody points at it, so that its marks tell what they are. The library
// that draws comes only then; without this file, charts are pictures with words and tables.
"use strict";

{
  const library = document.currentScript.dataset.library;
  const said = { link: "Link copied", image: "Image copied", data: "Data copied" };
  // Kinds of charts that somebody has looked into: they stay drawn when the question changes.
  const looked = new Set();
  let coming = null;

  function fetched() {
    coming ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = library;
      script.onload = () => resolve(window.vegaEmbed);
      script.onerror = () => reject(new Error("the library is not there"));
      document.head.append(script);
    });
    return coming;
  }

  function scheme() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  const address = (figure, format, more = "") => `${figure.dataset.chart}&format=${format}${more}`;

  const kindOf = (figure) => figure.dataset.chart.split("?")[0];

  async function draw(figure) {
    if (figure.dataset.drawn) return;
    figure.dataset.drawn = "coming";
    try {
      const picture = figure.querySelector(":scope > picture");
      const width = Math.max(240, Math.min(1600, Math.round(figure.getBoundingClientRect().width)));
      const looks = `&theme=${scheme()}&width_px=${width}&titled=false`;
      const [embed, answer] = await Promise.all([fetched(), fetch(address(figure, "vega-lite", looks))]);
      if (!answer.ok) throw new Error(answer.statusText);
      const host = document.createElement("div");
      host.className = "drawn";
      host.tabIndex = 0;
      host.setAttribute("role", "group");
      host.setAttribute("aria-label", `${picture.querySelector("img").alt} Arrow keys go from mark to mark.`);
      const specification = await answer.json();
      // The library is of the next version, which takes the same.
      specification.$schema = specification.$schema.replace("/v5.", "/v6.");
      // The interpreter needs no code made from text, which the page's policy forbids.
      await embed(host, specification, {
        ast: true, actions: false, renderer: "svg", defaultStyle: false, mode: "vega-lite",
        tooltip: { theme: "headroom", disableDefaultStyle: true },
      });
      // The whole of it is named, and told mark by mark below.
      host.querySelector("svg").setAttribute("aria-hidden", "true");
      picture.replaceWith(host);
      figure.dataset.drawn = "done";
      figure.querySelector(":scope > .before")?.remove();
      looked.add(kindOf(figure));
      walk(figure, host);
      if (figure.dataset.zoom !== undefined) zoom(figure, host.querySelector("svg"));
    } catch {
      // The picture stays as it is; the next look tries again.
      delete figure.dataset.drawn;
      coming = null;
    }
  }

  const told = (mark) => Object.entries(mark.__data__.tooltip).map(([name, text]) => `${name}: ${text}`).join(", ");

  // With the keyboard, what a pointer would be told.
  function walk(figure, host) {
    const marks = [...host.querySelectorAll("svg path, svg rect, svg circle")].filter(
      (one) => one.__data__?.tooltip && typeof one.__data__.tooltip === "object");
    const words = document.createElement("p");
    words.className = "told";
    words.setAttribute("role", "status");
    host.after(words);
    let at = -1;
    host.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step || marks.length === 0) return;
      event.preventDefault();
      marks[at]?.classList.remove("at");
      at = (at + step + marks.length) % marks.length;
      marks[at].classList.add("at");
      words.textContent = told(marks[at]);
    });
  }

  function button(text, label, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "second";
    made.textContent = text;
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    return made;
  }

  function zoom(figure, svg) {
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const view = { x: 0, y: 0, size: 1 };
    function show() {
      const [wide, high] = [width * view.size, height * view.size];
      view.x = Math.min(Math.max(view.x, 0), width - wide);
      view.y = Math.min(Math.max(view.y, 0), height - high);
      svg.setAttribute("viewBox", `${view.x} ${view.y} ${wide} ${high}`);
    }
    function scale(factor) {
      const before = view.size;
      view.size = Math.min(1, Math.max(1 / 16, view.size * factor));
      view.x += (width * (before - view.size)) / 2;
      view.y += (height * (before - view.size)) / 2;
      show();
    }
    let from = null;
    svg.addEventListener("pointerdown", (event) => { from = event; svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointerup", () => { from = null; });
    svg.addEventListener("pointermove", (event) => {
      if (!from || view.size === 1) return;
      const ratio = (width * view.size) / svg.getBoundingClientRect().width;
      view.x -= (event.clientX - from.clientX) * ratio;
      view.y -= (event.clientY - from.clientY) * ratio;
      from = event;
      show();
    });
    const row = document.createElement("p");
    row.className = "actions";
    row.append(
      button("+", "Zoom in", () => scale(1 / 1.6)),
      button("−", "Zoom out", () => scale(1.6)),
      button("Whole map", "", () => { view.size = 1; show(); }));
    figure.querySelector(".drawn").after(row);
  }

  const taken = {
    link: (figure) => navigator.clipboard.writeText(new URL(figure.querySelector("a.open").href).href),
    data: async (figure) => navigator.clipboard.writeText(await (await fetch(address(figure, "csv"))).text()),
    image: (figure) => navigator.clipboard.write([new ClipboardItem({
      "image/png": fetch(address(figure, "png", `&theme=${scheme()}&width_px=900`)).then((one) => one.blob()),
    })]),
  };

  function copies(figure) {
    const row = figure.querySelector(".actions");
    if (!row || !navigator.clipboard || row.querySelector("button")) return;
    for (const [what, label] of [["image", "Copy image"], ["data", "Copy data"], ["link", "Copy link"]]) {
      const made = button(label, "", async () => {
        try {
          await taken[what](figure);
          made.textContent = said[what];
        } catch {
          made.textContent = "This browser does not allow it";
        }
      });
      row.append(made);
    }
  }

  const chartOf = (event) => event.target.closest?.("figure[data-chart]");
  for (const kind of ["pointerover", "focusin"])
    document.addEventListener(kind, (event) => {
      const figure = chartOf(event);
      if (!figure) return;
      copies(figure);
      if (figure.querySelector(":scope > picture")) draw(figure);
    });
  document.addEventListener("answered", () => {
    for (const figure of document.querySelectorAll("figure[data-chart]"))
      if (looked.has(kindOf(figure))) draw(figure);
  });
  // The page of one chart is opened to look into it.
  for (const figure of document.querySelectorAll("figure[data-open]")) { copies(figure); draw(figure); }
}
