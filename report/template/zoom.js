"use strict";
// Charts zoom and move along their axes: linear, logarithmic or of time, in every panel that has one.
// The compiled chart gets a signal beside each scale; what is shown is kept as a share of the whole
// axis, so that one arithmetic serves all of them. A chart without such an axis is magnified as a
// picture. The wheel alone scrolls the page, and so does a finger until somebody has zoomed.
(function () {
  const page = window.servebook;
  const CONTINUOUS = ["linear", "log", "symlog", "pow", "sqrt", "time", "utc"];
  const MOST = 400; // times
  const STEP = 1.6; // of a button
  const PLACES = { x: ["x", "x2", "xc"], y: ["y", "y2", "yc"] };
  const signal = (scale) => `zoom_${scale}`;
  const ranged = (name) => `${signal(name)} ? null : `;

  function groups(spec) {
    const inner = (spec.marks || []).filter((mark) => mark.type === "group" && !/pathgroup$/.test(mark.name || ""));
    return [spec, ...inner.flatMap(groups)];
  }

  // Lines lie in a group of their own for each series, which has the size of its panel.
  const leaves = (marks) => (marks || []).flatMap((mark) => (mark.type !== "group" ? [mark] : /pathgroup$/.test(mark.name || "") ? leaves(mark.marks) : []));

  function scalesOf(mark, axis, known) {
    const encoded = (mark.encode && mark.encode.update) || {};
    const values = PLACES[axis].flatMap((name) => encoded[name] || []);
    return [...new Set(values.map((value) => value.scale).filter((name) => known.has(name)))];
  }

  // The compiled chart with a signal per scale that can move. What a mark shows stays inside the axes
  // while one has moved: marks are cut at the edge, words leave with the point they stand at.
  function patch(spec) {
    const moves = new Set((spec.scales || []).filter((scale) => CONTINUOUS.includes(scale.type) && !scale.domainRaw).map((scale) => scale.name));
    const shown = new Map();
    for (const group of groups(spec)) for (const axis of group.axes || []) if (moves.has(axis.scale)) shown.set(axis.scale, axis.title || shown.get(axis.scale));
    const titles = Object.fromEntries([...shown].map(([name, title]) => [name, typeof title === "string" || Array.isArray(title) ? [title].flat().join(" ") : ""]));
    const only = spec.usermeta && spec.usermeta.zoom === "x";
    const regions = [];
    for (const group of groups(spec)) {
      const region = { name: group === spec ? null : group.name, x: new Set(), y: new Set() };
      for (const mark of leaves(group.marks)) {
        const [x, y] = ["x", "y"].map((axis) => scalesOf(mark, axis, shown));
        for (const name of x) region.x.add(name);
        if (!only) for (const name of y) region.y.add(name);
      }
      if (region.x.size + region.y.size) regions.push(region);
    }
    const names = new Set(regions.flatMap((region) => [...region.x, ...region.y]));
    if (!names.size) return spec;
    spec.signals = [...(spec.signals || []), { name: "zoomed", value: false }, ...[...names].map((name) => ({ name: signal(name), value: null }))];
    for (const scale of spec.scales) if (names.has(scale.name)) scale.domainRaw = { signal: signal(scale.name) };
    for (const group of groups(spec)) {
      for (const axis of group.axes || []) {
        if (!names.has(axis.scale)) continue;
        if (Array.isArray(axis.values)) axis.values = { signal: ranged(axis.scale) + JSON.stringify(axis.values) };
        if (/^,?(\.0f|d)$/.test(axis.format || "")) axis.format = { signal: `${signal(axis.scale)} ? ",~g" : "${axis.format}"` };
      }
      for (const mark of leaves(group.marks)) {
        const along = ["x", "y"].filter((axis) => scalesOf(mark, axis, names).length);
        if (!along.length) continue;
        if (mark.type !== "text") {
          if (!mark.clip) mark.clip = { signal: "zoomed" };
          continue;
        }
        const size = { x: "width", y: "height" };
        const inside = along.map((axis) => `datum.${axis} >= -1 && datum.${axis} <= datum.mark.group.${size[axis]} + 1`).join(" && ");
        const full = mark.encode.update.opacity ? "datum.opacity" : "1";
        const formula = (as, gone, stays) => ({ type: "formula", as: as, expr: `datum.gone ? ${gone} : ${stays}` });
        mark.transform = [
          ...(mark.transform || []),
          { type: "formula", as: "gone", expr: `zoomed && !(${inside})` },
          formula("opacity", "0", full),
          // Else the picture would make room for it.
          ...along.map((axis) => formula(axis, "0", `datum.${axis}`)),
        ];
      }
    }
    spec.usermeta = { ...spec.usermeta, zooms: { regions: regions, titles: titles } };
    return spec;
  }

  // The panels of a drawn chart: where each lies in the drawing, and its scales.
  function panels(view, regions) {
    const found = [];
    const [left, top] = view.origin().map((at, i) => at + view.padding()[i ? "top" : "left"]);
    const walk = (item, x, y) => {
      for (const mark of item.items || []) {
        if (mark.marktype !== "group") continue;
        const region = regions.find((one) => one.name === mark.name);
        for (const inner of mark.items) {
          if (region) found.push({ region: region, x: x + inner.x, y: y + inner.y, width: inner.width, height: inner.height });
          walk(inner, x + (inner.x || 0), y + (inner.y || 0));
        }
      }
    };
    const root = view.scenegraph().root.items[0];
    const own = regions.find((one) => one.name === null);
    if (own) found.push({ region: own, x: left, y: top, width: root.width, height: root.height });
    walk(root, left, top);
    return found;
  }

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  // One share of an axis, made narrower or wider around a place in it, or moved.
  function narrowed([from, to], factor, at) {
    const width = clamp((to - from) * factor, 1 / MOST, 1);
    const start = clamp(from + at * (to - from) - at * width, 0, 1 - width);
    return width === 1 ? [0, 1] : [start, start + width];
  }
  function moved([from, to], by) {
    const start = clamp(from + by * (to - from), 0, 1 - (to - from));
    return [start, start + (to - from)];
  }

  const said = (value) => (value instanceof Date ? value.toISOString().replace("T", " ").slice(0, 19) : value.toLocaleString("en", { maximumSignificantDigits: 4 }));

  // What a chart shows of its axes. Scales with the same values move together, in all panels.
  class Axes {
    constructor(view, zooms) {
      this.view = view;
      this.zooms = zooms;
      this.names = [...new Set(zooms.regions.flatMap((region) => [...region.x, ...region.y]))];
      this.axis = new Map(this.names.map((name) => [name, zooms.regions.some((region) => region.x.has(name)) ? "x" : "y"]));
      this.shares = new Map(); // by key; an axis that is shown whole has none
    }

    get zoomed() {
      return this.shares.size > 0;
    }

    // The axes as they are drawn when nobody has zoomed; scales with one key are one axis.
    remember() {
      if (this.zoomed) return;
      const copy = (name) => {
        const scale = this.view.scale(name);
        return [name, { scale: scale.copy(), key: [this.axis.get(name), scale.type, ...scale.domain().map(Number)].join(" ") }];
      };
      this.whole = new Map(this.names.map(copy));
      // Panels that share an axis from left to right but not from below to above move along the first.
      const keys = (axis) => new Set(this.names.filter((name) => this.axis.get(name) === axis).map((name) => this.whole.get(name).key)).size;
      this.level = keys("x") > 0 && keys("x") < this.zooms.regions.length && keys("y") > 1;
    }

    // `change` makes a new share of an old one, once for each axis, however many scales it has.
    apply(names, change) {
      const done = new Set();
      for (const name of names) {
        if (this.level && this.axis.get(name) === "y") continue;
        const { key } = this.whole.get(name);
        if (done.has(key)) continue;
        done.add(key);
        const share = change(this.shares.get(key) || [0, 1], name);
        if (share[1] - share[0] < 1) this.shares.set(key, share);
        else this.shares.delete(key);
      }
      return this.show();
    }

    // The panel at a point of the drawing, and the scales that move there: beside a panel one axis.
    at([x, y]) {
      const outside = (at, from, size) => Math.max(from - at, 0, at - from - size);
      const all = panels(this.view, this.zooms.regions).map((panel) => ({ ...panel, aside: { x: outside(x, panel.x, panel.width), y: outside(y, panel.y, panel.height) } }));
      all.sort((one, other) => Math.hypot(one.aside.x, one.aside.y) - Math.hypot(other.aside.x, other.aside.y));
      const panel = all[0];
      const place = { x: (x - panel.x) / panel.width, y: (y - panel.y) / panel.height };
      const beside = { x: panel.aside.x > 0 && !panel.aside.y, y: panel.aside.y > 0 && !panel.aside.x };
      const names = ["x", "y"].filter((axis) => !(beside[axis] && panel.region[axis === "x" ? "y" : "x"].size)).flatMap((axis) => [...panel.region[axis]]);
      return { panel: panel, place: place, names: names };
    }

    // Shares run with the scale's range; pixels grow to the right and down.
    forward(name) {
      const [first, last] = this.whole.get(name).scale.range();
      return first <= last;
    }

    by(factor, point) {
      this.remember();
      const { place, names } = point ? this.at(point) : { place: { x: 0.5, y: 0.5 }, names: this.names };
      return this.apply(names, (share, name) => {
        const at = clamp(place[this.axis.get(name)], 0, 1);
        return narrowed(share, factor, this.forward(name) ? at : 1 - at);
      });
    }

    // By shares of what is shown, to the right and down.
    move(right, down, point) {
      const by = { x: right, y: down };
      return this.apply(point ? this.at(point).names : this.names, (share, name) => moved(share, by[this.axis.get(name)] * (this.forward(name) ? 1 : -1)));
    }

    size(point) {
      const { panel } = this.at(point);
      return [panel.width, panel.height];
    }

    reset() {
      this.shares.clear();
      return this.show();
    }

    resume(shares) {
      this.remember();
      this.shares = shares;
      return this.show();
    }

    domain(name) {
      const { scale, key } = this.whole.get(name);
      const [first, last] = scale.range();
      const share = this.shares.get(key);
      return share && share.map((part) => scale.invert(first + part * (last - first)));
    }

    show() {
      for (const name of this.whole ? this.names : []) {
        const domain = this.domain(name);
        this.view.signal(signal(name), domain ? domain.map(Number) : null);
      }
      this.view.signal("zoomed", this.zoomed);
      return this.view.runAsync();
    }

    words() {
      const moved = this.zoomed ? this.names.filter((name) => this.domain(name)) : [];
      const key = (name) => this.whole.get(name).key;
      const titled = moved.filter((name) => this.zooms.titles[name]);
      const told = [...titled, ...moved.filter((name) => !titled.some((other) => key(other) === key(name)))].map((name) => {
        const [from, to] = this.domain(name).map(said);
        return page.say("shown", { axis: this.zooms.titles[name] || this.axis.get(name), from: from, to: to });
      });
      return [...new Set(told)].join(" ");
    }
  }

  // A chart without axes that move: the view box shrinks around the pointer.
  class Picture {
    constructor(plot) {
      this.svg = plot.querySelector(".live svg");
      this.whole = ["width", "height"].map((name) => parseFloat(this.svg.getAttribute(name)));
      this.shares = [[0, 1], [0, 1]];
    }

    get zoomed() {
      return this.shares[0][1] - this.shares[0][0] < 1;
    }

    by(factor, point) {
      const at = [0, 1].map((i) => (point ? point[i] / this.whole[i] : 0.5));
      this.shares = this.shares.map((share, i) => narrowed(share, Math.max(factor, 1 / 12 / (share[1] - share[0])), at[i]));
      return this.show();
    }

    move(right, down) {
      this.shares = this.shares.map((share, i) => moved(share, [right, down][i]));
      return this.show();
    }

    size() {
      return this.whole;
    }

    reset() {
      this.shares = [[0, 1], [0, 1]];
      return this.show();
    }

    resume(shares) {
      this.shares = shares;
      return this.show();
    }

    show() {
      const [x, y] = this.shares;
      const box = [x[0] * this.whole[0], y[0] * this.whole[1], (x[1] - x[0]) * this.whole[0], (y[1] - y[0]) * this.whole[1]];
      this.svg.setAttribute("viewBox", box.join(" "));
      return Promise.resolve();
    }

    words() {
      return this.zoomed ? page.say("magnified", { times: said(1 / (this.shares[0][1] - this.shares[0][0])) }) : "";
    }
  }

  // Buttons beside the figure: there from the start, so that nothing moves when the chart comes alive.
  const bars = new Map();
  for (const plot of document.querySelectorAll(".plot[data-chart]")) {
    const tools = plot.closest("figure").querySelector(".tools");
    if (!tools) continue;
    const bar = document.createElement("span");
    bar.className = "zooms waiting";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", page.say("zooms"));
    const state = { bar: bar, zoom: null, told: tools.querySelector("[role=status]") };
    const press = (text, title, action) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.title = title;
      made.setAttribute("aria-label", title);
      made.addEventListener("click", () => act(plot, action));
      bar.append(made);
    };
    press(page.say("zoom_out"), page.say("zoom_out_title"), (zoom) => zoom.by(STEP));
    press(page.say("zoom_in"), page.say("zoom_in_title"), (zoom) => zoom.by(1 / STEP));
    press(page.say("zoom_reset"), page.say("zoom_reset_title"), (zoom) => zoom.reset());
    bar.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, -0.2], ArrowDown: [0, 0.2] }[event.key];
      if (!by || !state.zoom || !state.zoom.zoomed) return;
      event.preventDefault();
      act(plot, (zoom) => zoom.move(...by));
    });
    tools.insertBefore(bar, state.told);
    bars.set(plot, state);
  }

  async function act(plot, action) {
    const state = bars.get(plot);
    if (!state || !state.zoom) return;
    await action(state.zoom);
    plot.classList.toggle("zoomed", state.zoom.zoomed);
    state.told.textContent = state.zoom.words();
  }

  // Wheel, mouse and fingers. Many events may come in a frame: what they add up to is shown once.
  function listen(plot, zoom) {
    const svg = plot.querySelector(".live svg");
    const point = (event) => {
      const frame = svg.getBoundingClientRect();
      const scale = parseFloat(svg.getAttribute("width")) / frame.width;
      return [(event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale];
    };
    let waiting = null;
    const later = (action) => {
      if (waiting) waiting.push(action);
      else {
        waiting = [action];
        requestAnimationFrame(() => {
          const all = waiting;
          waiting = null;
          act(plot, async (one) => {
            for (const next of all) await next(one);
          });
        });
      }
    };
    svg.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        const at = point(event);
        later((one) => one.by(Math.pow(1.002, event.deltaY), at));
      },
      { passive: false },
    );
    const fingers = new Map();
    let fresh = null; // a finger that is alone and has not moved yet
    const drags = (event) => zoom.zoomed && (event.pointerType !== "mouse" || event.buttons & 1);
    svg.addEventListener("pointerdown", (event) => {
      if (!zoom.zoomed || (event.pointerType === "mouse" && event.button !== 0)) return;
      fingers.set(event.pointerId, point(event));
      fresh = event.pointerType === "touch" && fingers.size === 1 ? event.pointerId : null;
    });
    svg.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before || !drags(event)) return;
      const now = point(event);
      // A finger that sets out up or down scrolls the page; the browser takes it over a moment later.
      const leaves = fresh === event.pointerId && Math.abs(now[1] - before[1]) > Math.abs(now[0] - before[0]);
      fresh = null;
      if (leaves) {
        fingers.delete(event.pointerId);
        return;
      }
      const others = [...fingers].filter(([id]) => id !== event.pointerId);
      fingers.set(event.pointerId, now);
      if (others.length) {
        const other = others[0][1];
        const apart = (one) => Math.max(20, Math.hypot(one[0] - other[0], one[1] - other[1]));
        later((one) => one.by(apart(before) / apart(now), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]));
      } else {
        svg.setPointerCapture(event.pointerId);
        later((one) => {
          const [width, height] = one.size(before);
          return one.move((before[0] - now[0]) / width, (before[1] - now[1]) / height, before);
        });
      }
    });
    // One finger up and down is the page's; two of them never are, whichever way they go.
    const two = (event) => zoom.zoomed && event.touches.length > 1 && event.cancelable && event.preventDefault();
    for (const touch of ["touchstart", "touchmove"]) svg.addEventListener(touch, two, { passive: false });
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, (event) => fingers.delete(event.pointerId));
    svg.addEventListener("dblclick", () => act(plot, (one) => one.reset()));
  }

  page.patch = patch;
  page.unzoom = (plot) => act(plot, (zoom) => zoom.reset());
  page.drawn.push((plot, view, spec, compiled) => {
    const zooms = compiled.usermeta && compiled.usermeta.zooms;
    const zoom = zooms ? new Axes(view, zooms) : new Picture(plot);
    const state = bars.get(plot);
    if (!state) return;
    const before = state.zoom;
    state.zoom = zoom;
    state.bar.classList.remove("waiting");
    plot.classList.remove("zoomed");
    listen(plot, zoom);
    // A chart that is drawn anew for another width shows what it showed.
    if (before && before.zoomed && before.constructor === zoom.constructor) act(plot, (one) => one.resume(before.shares));
  });

  // Paper shows all of each chart.
  window.addEventListener("beforeprint", () => {
    for (const [plot, state] of bars) if (state.zoom && state.zoom.zoomed) page.unzoom(plot);
  });
})();
