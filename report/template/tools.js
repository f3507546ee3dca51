"use strict";
// Buttons that need no network: tables as CSV, charts as SVG and PNG, columns that sort. They are made
// here, so that a page without scripts shows none.
(function () {
  const page = window.servebook;
  const SVG = "http://www.w3.org/2000/svg";
  const FONT = '"Liberation Sans", Arial, Helvetica, sans-serif';
  const MARGIN = 12;

  // A cell's full value: as a number where it is one, else as its text.
  function value(cell) {
    if (cell.dataset.v !== undefined) return cell.dataset.v;
    const text = cell.textContent.trim();
    if (text === "\u2013") return "";
    return cell.classList.contains("n") ? text.replace(/,/g, "").replace("\u2212", "-") : text;
  }

  // A name that a spreadsheet would run as a formula starts with an apostrophe, as in the files.
  const harmless = (text) => (/^[=+\-@\t\r]/.test(text) && isNaN(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const field = (cell) => quoted(harmless(value(cell)));
  // A table that is too wide stands in bands of columns, each of which begins with the same ones again.
  function bandsOf(table) {
    const figure = table.closest("figure");
    return figure ? [...figure.querySelectorAll("table")] : [table];
  }
  const fields = (table, row) => [...table.rows[row].cells].filter((cell) => cell.dataset.again === undefined).map(field);
  function csv(table) {
    const bands = bandsOf(table);
    const lines = [...table.rows].map((_, row) => bands.flatMap((band) => fields(band, row)).join(","));
    return lines.join("\n") + "\n";
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const box = document.createElement("textarea");
      box.value = text;
      box.className = "unseen";
      document.body.append(box);
      box.select();
      const done = document.execCommand("copy");
      box.remove();
      return done;
    }
  }

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function lines(text, font, width) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = font;
    const rows = [];
    let row = "";
    for (const word of text.split(/ +/)) {
      const longer = row ? `${row} ${word}` : word;
      if (row && pen.measureText(longer).width > width) {
        rows.push(row);
        row = word;
      } else row = longer;
    }
    return row ? [...rows, row] : rows;
  }

  // The chart as it stands, with its words around it: a picture that is passed on alone still says
  // what it shows, under which condition, and that it was not measured.
  function picture(figure) {
    const drawn = figure.querySelector(".plot svg").cloneNode(true);
    for (const node of drawn.querySelectorAll(".linked")) node.classList.remove("linked");
    const size = ["width", "height"].map((name) => parseFloat(drawn.getAttribute(name)));
    const whole = document.createElementNS(SVG, "svg");
    const width = size[0] + 2 * MARGIN;
    let y = MARGIN;
    const write = (selector, font, step, colour) => {
      for (const part of figure.querySelectorAll(selector)) {
        for (const line of lines(part.textContent.trim(), font, size[0])) {
          const node = document.createElementNS(SVG, "text");
          y += step;
          node.setAttribute("x", MARGIN);
          node.setAttribute("y", y - step / 4);
          node.setAttribute("fill", colour);
          node.style.font = font;
          node.textContent = line;
          whole.append(node);
        }
      }
    };
    const paper = document.createElementNS(SVG, "rect");
    whole.append(paper);
    write("h3", `bold 16px ${FONT}`, 21, "#1b1e23");
    write("figcaption .subtitle", `13px ${FONT}`, 18, "#555c66");
    write("figcaption .mark", `bold 13px ${FONT}`, 19, "#7a3e00");
    drawn.setAttribute("x", MARGIN);
    drawn.setAttribute("y", (y += 6));
    drawn.removeAttribute("style");
    whole.append(drawn);
    y += size[1];
    write(".basis p:first-child", `12px ${FONT}`, 17, "#555c66");
    const height = Math.ceil(y + MARGIN);
    for (const [name, number] of Object.entries({ width: width, height: height })) {
      whole.setAttribute(name, number);
      paper.setAttribute(name, number);
    }
    paper.setAttribute("fill", "#ffffff");
    whole.setAttribute("viewBox", `0 0 ${width} ${height}`);
    return { text: new XMLSerializer().serializeToString(whole), width: width, height: height };
  }

  async function png(drawing) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing.text)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * drawing.width;
    canvas.height = 2 * drawing.height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture"))), "image/png"));
  }

  function button(text, action, status) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", async () => {
      status.textContent = "";
      status.textContent = await action();
    });
    return made;
  }

  for (const figure of document.querySelectorAll("figure.figure")) {
    const table = figure.querySelector("table");
    const plot = figure.querySelector(".plot svg");
    if (!table && !plot) continue;
    const name = figure.id.replace(/^figure-/, "");
    const bar = document.createElement("div");
    const status = document.createElement("span");
    bar.className = "tools";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", page.say("tools", { title: figure.querySelector("h3").textContent }));
    status.setAttribute("role", "status");
    if (table) {
      const copied = async () => {
        if (!(await copy(csv(table)))) return page.say("not_copied");
        const [rows, shown] = [Number(table.dataset.rows), table.tBodies[0].rows.length];
        const told = page.count("rows", rows);
        return shown < rows ? page.say("copied_part", { shown: shown, rows: told }) : page.say("copied", { rows: told });
      };
      bar.append(button(page.say("copy_csv"), copied, status));
    }
    if (plot) {
      const saved = (blob, kind) => {
        save(blob, `${name}.${kind}`);
        return page.say("saved", { name: `${name}.${kind}` });
      };
      const svg = async () => saved(new Blob([picture(figure).text], { type: "image/svg+xml" }), "svg");
      const raster = async () => {
        try {
          return saved(await png(picture(figure)), "png");
        } catch (error) {
          console.error(error);
          return page.say("not_saved");
        }
      };
      bar.append(button(page.say("save_svg"), svg, status), button(page.say("save_png"), raster, status));
    }
    bar.append(status);
    figure.append(bar);
  }

  // Tables sort by any column: up, down, and back to the order of the page.
  let collator = null;
  const alike = (a, b) => (collator = collator || new Intl.Collator("en", { numeric: true })).compare(a, b);
  const rowsOf = new Map(); // of each table, in the order of the page
  function sortable(table) {
    const bands = bandsOf(table);
    for (const band of bands) if (!rowsOf.has(band)) rowsOf.set(band, [...band.tBodies[0].rows]);
    const before = rowsOf.get(table);
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const press = document.createElement("button");
      press.type = "button";
      press.className = "sort";
      // Whoever points at the words, or comes to them by key, is told what they mean, too.
      press.title = [head.title, page.say("sort", { column: head.textContent })].filter(Boolean).join("\n");
      press.append(...head.childNodes);
      head.append(press);
      head.setAttribute("aria-sort", "none");
      press.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")];
        for (const other of heads) other.setAttribute("aria-sort", other === head ? next : "none");
        const sign = next === "descending" ? -1 : 1;
        const numeric = head.classList.contains("n");
        const keys = new Map(before.map((row) => [row, value(row.cells[column])]));
        const compare = (a, b) => {
          const [x, y] = [keys.get(a), keys.get(b)];
          // What is not known stays at the end, whichever way the column is sorted.
          if (x === "" || y === "") return (x === "") - (y === "");
          return sign * (numeric ? Number(x) - Number(y) : alike(x, y));
        };
        const order = [...before.keys()];
        if (next !== "none") order.sort((a, b) => compare(before[a], before[b]));
        for (const band of bands) {
          if (band !== table) for (const other of band.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
          band.tBodies[0].append(...order.map((row) => rowsOf.get(band)[row]));
        }
      });
    });
  }

  // Their buttons are as large as the words that they hold, so they can come later: when somebody opens
  // what a table is folded into, or one table after the other when there is nothing else to do.
  const waiting = new Set([...document.querySelectorAll("main table")].filter((table) => table.tHead && table.tBodies[0] && table.tBodies[0].rows.length > 1));
  const prepare = (table) => waiting.delete(table) && sortable(table);
  for (const table of waiting) {
    const fold = table.closest("details");
    if (fold) fold.addEventListener("toggle", () => prepare(table), { once: true });
  }
  async function prepareAll() {
    for (const table of waiting) {
      await page.idle();
      prepare(table);
    }
  }
  window.addEventListener("load", prepareAll);
})();
