// Dots of the map lead where the names below it do; without this file, the names alone do.
"use strict";

document.querySelector("svg.places").addEventListener("click", (event) => {
  const region = event.target.closest("[data-region]")?.dataset.region;
  if (region) document.querySelector(`[data-place="${CSS.escape(region)}"]`).click();
});
