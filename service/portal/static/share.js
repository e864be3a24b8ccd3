// A button that copies beside each snippet; without this file, they are selected by hand.
"use strict";

if (navigator.clipboard) {
  const said = document.getElementById("status");
  for (const snippet of document.querySelectorAll("pre[data-copy]")) {
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "second";
    copy.textContent = `Copy ${snippet.dataset.copy}`;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(snippet.textContent);
      said.textContent = `${snippet.dataset.copy} copied`;
      copy.textContent = "Copied";
    });
    const row = document.createElement("p");
    row.className = "actions";
    row.append(copy);
    snippet.after(row);
  }
}
