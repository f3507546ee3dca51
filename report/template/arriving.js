"use strict";
// A page that is opened at its top: chapters far below the screen are skipped while it arrives, and laid
// out after the load event, in tasks that leave room for others. What is on the screen does not move,
// because only what stands below it grows. Whoever goes anywhere in that half second, or prints, gets
// everything laid out at once. The root has the class "arriving" until all is there, and the browser's
// timeline then a mark "arrived". A page that is opened at a figure, or that was open before and returns
// to its place, skips nothing.
(function () {
  const HOLD_MS = 150;
  const TASK_MS = 25;
  const NO_FRAME_MS = 200;
  const GOES = ["keydown", "pointerdown", "touchstart", "wheel", "click", "focusin", "scroll", "hashchange", "beforeprint"];
  const [entry] = performance.getEntriesByType("navigation");
  if (!entry || entry.type !== "navigate" || entry.name.includes("#")) return;
  const root = document.documentElement;
  root.classList.add("arriving");

  // A page from a disk is there at once: painting it piece by piece takes longer than painting it whole.
  // One that comes more slowly than this is painted as it comes.
  const hold = document.createElement("link");
  hold.rel = "expect";
  hold.setAttribute("href", "#page-end");
  hold.setAttribute("blocking", "render");
  document.head.append(hold);
  const release = () => hold.remove();
  setTimeout(release, HOLD_MS);

  let ahead = [];
  function all() {
    for (const name of GOES) window.removeEventListener(name, all, true);
    ahead = [];
    root.classList.remove("arriving");
    performance.mark("arrived");
    for (const chapter of document.querySelectorAll(".chapter.laid")) chapter.classList.remove("laid");
    const target = document.querySelector(":target"); // somebody went there while places were estimates
    if (target) target.scrollIntoView();
  }

  const SOON = { priority: "user-blocking" }; // before charts; what a reader does comes before it all the same
  const later = (step) => (window.scheduler && scheduler.postTask ? scheduler.postTask(step, SOON) : setTimeout(step, 0));
  function next() {
    if (!root.classList.contains("arriving")) return;
    const start = performance.now();
    for (let chapter; (chapter = ahead.shift()); ) {
      chapter.classList.add("laid");
      chapter.getBoundingClientRect(); // which lays it out in this task
      if (performance.now() - start > TASK_MS) return later(next);
    }
    all();
  }

  for (const name of GOES) window.addEventListener(name, all, { capture: true, passive: true });
  window.addEventListener("load", () => {
    release();
    ahead = [...document.querySelectorAll(".chapter")];
    let begun = false;
    const begin = () => begun || ((begun = true), later(next));
    requestAnimationFrame(begin); // what is on the screen comes first
    setTimeout(begin, NO_FRAME_MS); // a window that nobody looks at has no frames
  });
})();
