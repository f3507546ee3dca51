"use strict";
// Charts that answer one another: the point under the pointer is ringed in every chart that shows the
// same configuration at the same concurrency; a chart of several runs gets a list to choose from.
(function () {
  const page = window.servebook;
  const hint = document.createElement("p");
  hint.className = "zoom small";
  hint.textContent = page.say("zoom");
  document.querySelector("nav.chapters").append(hint);
  const KEYS = ["series", "configuration"];

  // A series is a configuration under one load. A colour is a configuration whatever its load, so it
  // tells within one figure alone. A row that stands for a condition is known by its label.
  function same(one, other, within) {
    if (one.concurrency === undefined) {
      return other.concurrency === undefined && Boolean(one.label) && one.label === other.label;
    }
    if (one.concurrency !== other.concurrency) return false;
    const keys = within ? [...KEYS, "colour"] : KEYS;
    const key = keys.find((name) => one[name] !== undefined && other[name] !== undefined);
    return key !== undefined && one[key] === other[key];
  }

  const linkable = (datum) => datum.concurrency !== undefined || Boolean(datum.label);

  function symbols(mark, found) {
    for (const item of mark.items || []) {
      if (mark.marktype === "symbol" && item.datum && item._svg) found.push(item);
      if (item.items) for (const inner of item.items) symbols(inner, found);
    }
    return found;
  }

  let marked = [];
  function clear() {
    for (const node of marked) {
      if (node.classList.contains("chip")) node.remove();
      else node.classList.remove("linked");
    }
    marked = [];
  }

  function chip(plot, node, text) {
    const box = document.createElement("span");
    box.className = "chip";
    box.textContent = text;
    const at = node.getBoundingClientRect();
    const frame = plot.getBoundingClientRect();
    box.style.top = `${at.top - frame.top + at.height / 2}px`;
    if (at.left - frame.left < frame.width / 2) box.style.left = `${at.right - frame.left + 6}px`;
    else box.style.right = `${frame.right - at.left + 6}px`;
    plot.append(box);
    marked.push(box);
  }

  function mark(datum, item, own) {
    clear();
    for (const [plot, state] of page.live) {
      for (const other of symbols(state.result.view.scenegraph().root, [])) {
        if (!same(datum, other.datum, plot === own)) continue;
        other._svg.classList.add("linked");
        marked.push(other._svg);
        if (other !== item && other.datum.tip) chip(plot, other._svg, other.datum.tip);
      }
    }
  }

  function choice(name) {
    const box = document.createElement("label");
    const list = document.createElement("select");
    box.className = name;
    box.append(page.say("run") + " ", list);
    return [box, list];
  }

  // The list has its place from the start, so that nothing moves when it comes.
  for (const plot of document.querySelectorAll(".plot[data-choices]")) plot.before(choice("choice waiting")[0]);

  function choose(plot, view, choices) {
    const place = plot.parentNode.querySelector(".choice");
    const old = place && !place.classList.contains("waiting") ? place : null;
    const [box, list] = choice("choice");
    for (const [value, name] of choices.values) {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = name;
      list.append(option);
    }
    // A chart that is drawn anew for another width keeps its run.
    if (old) list.value = old.querySelector("select").value;
    const show = async () => {
      await page.unzoom(plot); // another run, another window
      await view.signal(choices.param, list.value).runAsync();
    };
    if (old && list.value !== choices.values[0][0]) show();
    list.addEventListener("change", show);
    if (place) place.replaceWith(box);
    else plot.before(box);
  }

  page.drawn.push((plot, view, spec) => {
    if (spec.usermeta && spec.usermeta.choices) choose(plot, view, spec.usermeta.choices);
    if (!symbols(view.scenegraph().root, []).some((item) => linkable(item.datum))) return;
    view.addEventListener("pointerover", (event, item) => {
      if (item && item.mark.marktype === "symbol" && item.datum && linkable(item.datum)) mark(item.datum, item, plot);
    });
    view.addEventListener("pointerout", clear);
  });
})();
