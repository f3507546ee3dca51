"use strict";
// Charts turn interactive when they come into view. Without this script the page is complete:
// drawings, tables and text are all there.
(function () {
  const WIDE = 760;
  const LETTER = 5.6; // pixels of one in a title, about
  const BESIDE = 110; // what may stand to the left of an axis
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const refuse = () => Promise.reject(new Error("this page loads nothing"));
  const loader = { load: refuse, sanitize: refuse, http: refuse, file: refuse };
  const live = new Map();

  // What the page's other scripts share with this one: charts at work, what to do with a new one, and
  // the texts of the page's language.
  const words = JSON.parse(document.getElementById("words").textContent);
  const say = (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (all, name) => (name in values ? values[name] : all));
  const count = (key, n) => say(`${key}.${n === 1 ? "one" : "many"}`, { n: n.toLocaleString("en") });
  const idle = () => new Promise((done) => (window.requestIdleCallback ? requestIdleCallback(done, { timeout: 300 }) : setTimeout(done, 0)));
  const page = { live: live, drawn: [], patch: (spec) => spec, say: say, count: count, idle: idle };
  window.servebook = page;

  // The page keeps rows as columns, and the look that charts share once.
  function unpacked({ look, charts }, name) {
    const spec = structuredClone(charts[name]);
    if (spec.look === "shared") spec.config = look;
    delete spec.look;
    for (const [name, data] of Object.entries(spec.datasets || {})) {
      const rows = Array.from({ length: data.n }, () => ({}));
      for (const [field, column] of Object.entries(data.columns)) {
        rows.forEach((row, i) => {
          row[field] = column.values ? column.values[i] : column.words ? column.words[column.at[i]] : column.same;
        });
      }
      spec.datasets[name] = rows;
    }
    return spec;
  }

  const parts = (spec) => spec.layer || spec.hconcat || spec.vconcat || spec.concat || (spec.spec ? [spec.spec] : []);

  // How many pixels the views of a specification take from left to right.
  function span(spec) {
    if (spec.hconcat) return spec.hconcat.reduce((sum, view) => sum + span(view), 0);
    const inner = parts(spec).map(span);
    return Math.max(typeof spec.width === "number" ? spec.width : 0, ...inner, 0);
  }

  function across(spec) {
    if (spec.hconcat) return spec.hconcat.reduce((sum, view) => sum + across(view), 0);
    return Math.max(1, ...parts(spec).map(across));
  }

  // The title below an axis in lines of so many letters.
  function wrapped(title, letters) {
    if (typeof title !== "string" || title.length <= letters) return title;
    const lines = [""];
    for (const word of title.split(" ")) {
      const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
      if (lines.at(-1) && longer.length > letters) lines.push(word);
      else lines[lines.length - 1] = longer;
    }
    return lines;
  }

  // Panels side by side go below one another, views take the width that is there, and so do titles.
  function refit(spec, change, letters) {
    const copy = { ...spec };
    if (copy.hconcat) {
      copy.vconcat = copy.hconcat;
      delete copy.hconcat;
    }
    if (copy.concat || (copy.facet && copy.spec)) copy.columns = 1;
    if (typeof copy.width === "number") copy.width = change(copy.width);
    if (copy.encoding && copy.encoding.x) {
      const x = { ...copy.encoding.x };
      if (x.title) x.title = wrapped(x.title, letters);
      if (x.axis && x.axis.title) x.axis = { ...x.axis, title: wrapped(x.axis.title, letters) };
      copy.encoding = { ...copy.encoding, x: x };
    }
    for (const key of ["layer", "vconcat", "concat"]) {
      if (copy[key]) copy[key] = copy[key].map((view) => refit(view, change, letters));
    }
    if (copy.spec) copy.spec = refit(copy.spec, change, letters);
    return copy;
  }

  // Vega and the charts lie in the page as packed data; they are unpacked once, for the first chart.
  async function inflated(id) {
    const packed = atob(document.getElementById(id).textContent.trim());
    const bytes = new Uint8Array(packed.length);
    for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
    const unpacking = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(unpacking).text();
  }

  let running = null;
  const prepared = () => (running = running || prepare());
  async function prepare() {
    const [charts, vega] = [await inflated("charts"), await inflated("vega")];
    await idle(); // each step is a task of its own
    const packed = JSON.parse(charts);
    await idle();
    const script = document.createElement("script");
    script.textContent = vega;
    document.head.append(script);
    await idle();
    const box = document.createElement("div");
    const first = await window.vegaEmbed(box, { marks: [] }, { ...options(), mode: "vega" });
    const View = first.view.constructor;
    first.finalize();
    await idle();
    return { packed: packed, View: paced(View) };
  }

  // A view that lets the page breathe between being made and being drawn.
  const paced = (View) =>
    class extends View {
      async runAsync(...how) {
        if (!this.begun) {
          this.begun = true;
          await pause();
        }
        return super.runAsync(...how);
      }
    };

  const options = () => ({
    ast: true,
    actions: false,
    renderer: "svg",
    loader: loader,
    hover: false,
    tooltip: { theme: dark.matches ? "dark" : "light" },
  });

  const pause = () => new Promise((done) => setTimeout(done, 0));

  // Vega-Embed compiles, parses and draws in one go. Here each is a task of its own: the first call ends
  // when the chart is compiled, the second takes it from there.
  async function embed(box, spec, View) {
    const done = new Error("compiled");
    let compiled = null;
    const patch = (vega) => {
      compiled = page.patch(vega);
      throw done;
    };
    await window.vegaEmbed(box, spec, { ...options(), patch: patch }).catch((error) => {
      if (error !== done) throw error;
    });
    await pause();
    return window.vegaEmbed(box, compiled, { ...options(), mode: "vega", viewClass: View });
  }

  const drawnWidth = (box) => {
    const svg = box.querySelector("svg");
    return svg ? parseFloat(svg.getAttribute("width")) : 0;
  };

  async function draw(plot) {
    const room = plot.clientWidth;
    const box = document.createElement("div");
    box.className = "live waiting";
    box.setAttribute("aria-hidden", "true"); // the plot around it says in words what it shows
    plot.append(box);
    try {
      const { packed, View } = await prepared();
      const spec = unpacked(packed, plot.dataset.chart);
      const natural = Number(plot.dataset.natural);
      let result;
      // A chart that is a little too wide for a wide card shrinks as a whole.
      if (natural <= room + 1 || room >= WIDE) {
        result = await embed(box, spec, View);
      } else {
        const extra = (natural - span(spec)) / across(spec);
        let width = Math.max(120, room - extra);
        const letters = Math.max(20, Math.floor((room - BESIDE) / LETTER));
        result = await embed(box, refit(spec, (w) => Math.min(w, width), letters), View);
        const excess = drawnWidth(box) - room;
        if (excess > 1) {
          result.finalize();
          width = Math.max(100, width - excess);
          result = await embed(box, refit(spec, (w) => Math.min(w, width), letters), View);
        }
      }
      for (const old of [...plot.children]) if (old !== box) old.remove();
      box.className = "live";
      if (live.has(plot)) live.get(plot).result.finalize();
      live.set(plot, { result: result, room: room });
      plot.dataset.state = "interactive";
      for (const hook of page.drawn) hook(plot, result.view, spec, result.vgSpec);
    } catch (error) {
      box.remove();
      plot.dataset.state = "static";
      console.error("chart " + plot.dataset.chart + " stays as a drawing", error);
    }
  }

  // One chart at a time, so that scrolling stays smooth.
  let queue = Promise.resolve();
  const enqueue = (plot) => (queue = queue.then(idle).then(() => draw(plot)));

  const plots = [...document.querySelectorAll(".plot[data-chart]")];
  for (const plot of plots) plot.dataset.natural = drawnWidth(plot);

  if ("DecompressionStream" in window && "IntersectionObserver" in window) {
    const seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (entry.isIntersecting) {
            seen.unobserve(entry.target);
            enqueue(entry.target);
          }
        }
      },
      { rootMargin: "300px 0px" },
    );
    for (const plot of plots) seen.observe(plot);

    let timer = 0;
    window.addEventListener("resize", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        for (const [plot, state] of live) {
          if (Math.abs(plot.clientWidth - state.room) > 8 && !window.matchMedia("print").matches) enqueue(plot);
        }
      }, 200);
    });
  }

  // Paper shows what is folded on the screen.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const one of folded) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of folded) one.open = false;
    folded = [];
  });

  // The list of chapters follows the reader.
  if ("IntersectionObserver" in window) {
    const links = new Map([...document.querySelectorAll("nav.chapters a")].map((a) => [a.hash.slice(1), a]));
    const spy = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting) continue;
          for (const [id, link] of links) {
            if (id === entry.target.id) link.setAttribute("aria-current", "true");
            else link.removeAttribute("aria-current");
          }
        }
      },
      { rootMargin: "-20% 0px -70% 0px" },
    );
    for (const id of links.keys()) spy.observe(document.getElementById(id));
  }
})();
