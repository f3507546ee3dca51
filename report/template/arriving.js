"use strict";
// While a page that is opened at its top still arrives, chapters far below are neither styled nor laid
// out; from the load event on everything is, and nothing moves again. A page that is opened at a figure,
// or that was open before and returns to its place, needs all that stands above it at once.
(function () {
  const [entry] = performance.getEntriesByType("navigation");
  if (location.hash || !entry || entry.type !== "navigate") return;
  const root = document.documentElement;
  root.classList.add("arriving");
  window.addEventListener("load", () => root.classList.remove("arriving"));
})();
