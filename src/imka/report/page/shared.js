"use strict";
// Shared by all pages: elements, numbers, sortable tables, commands to copy, light and dark. Text from documents becomes
// text nodes and attributes, never markup.
const shared = (() => {
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  // Elements

  // The SVG namespace, without a URL in the page.
  const SVG = document.querySelector("svg").namespaceURI;
  const fill = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  };
  const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const details = (title, attributes, ...children) => make("details", attributes, make("summary", {}, title), ...children);
  const listOf = (items) => make("ul", {}, items.map((item) => make("li", {}, item)));
  const note = (text) => make("p", { class: "note" }, text);
  const tile = (kind, value, name, what) => make("div", { class: "tile " + kind }, make("b", {}, value), make("span", {}, name), make("small", {}, what));

  // Numbers

  // As printf and C++: exact ties round to the even digit; toFixed rounds up.
  const fixed = (x, digits) => {
    const exact = x.toFixed(60);
    const cut = exact.length - 60 + digits;
    const below = exact.slice(0, cut).replace(/\.$/, "");
    return /^50*$/.test(exact.slice(cut)) && /[02468]$/.test(below) ? below : x.toFixed(digits);
  };
  const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
  const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");

  const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
  const short = (x) => (Math.abs(x) >= 1000 ? fixed(x, 0) : String(Number(x.toPrecision(3))));
  const prefixOf = (x) => PREFIXES.find(([scale]) => Math.abs(x) >= scale) ?? (x === 0 ? [1, ""] : PREFIXES.at(-1));
  // null: unknown.
  const si = (x, unit) => (x === null ? "unknown" : short(x / prefixOf(x)[0]) + " " + prefixOf(x)[1] + unit);
  const percent = (share) => short(100 * share) + " %";
  const interval = ({ value, low, high }, unit) => {
    const shown = (x) => short(x / prefixOf(value)[0]);
    return si(value, unit) + (low < high ? " (" + shown(low) + " to " + shown(high) + ")" : "");
  };
  const mean = (m, scale = 1) => short(100 * scale * m.mean) + (m.ci95 === null ? "" : " ± " + Number((100 * scale * m.ci95).toPrecision(2))) + " %";

  // Tables: a click sorts by a column, using `sort` or the text of a cell.

  const text = (value) => ({ body: [value] });
  const number = (value, shown) => ({ body: [shown], sort: value, number: true });
  const integer = (value) => number(value, String(value));
  const nothing = () => ({ body: ["–"], number: true });

  const table = (caption, head, rows) => {
    const cell = (c) => make("td", { class: c.number ? (c.pair ? "n pair" : "n") : undefined, "data-v": c.sort }, c.body);
    const columns = head.map((name, i) => make("th", { scope: "col", class: rows.length && rows[0][i].number ? "n" : undefined }, make("button", { type: "button" }, name)));
    const element = make("table", { class: "sortable", "aria-label": caption }, make("thead", {}, make("tr", {}, columns)), make("tbody", {}, rows.map((row) => make("tr", {}, row.map(cell)))));
    columns.forEach((column, i) => column.firstChild.addEventListener("click", () => sortBy(element, i, column)));
    // The caption does not scroll with the table.
    return [make("p", { class: "caption" }, caption), make("div", { class: "scroll" }, element)];
  };

  const sortBy = (element, column, head) => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    const value = (row) => {
      const shown = row.cells[column].dataset.v ?? row.cells[column].textContent;
      return shown !== "" && Number.isFinite(Number(shown)) ? Number(shown) : shown;
    };
    const compare = (a, b) => {
      const x = value(a);
      const y = value(b);
      if (typeof x === "number" && typeof y === "number") return x - y;
      if (typeof x === "number") return -1;
      if (typeof y === "number") return 1;
      return x.localeCompare(y);
    };
    const body = element.tBodies[0];
    const rows = [...body.rows].sort((a, b) => (up ? compare(a, b) : compare(b, a)));
    for (const th of element.tHead.rows[0].cells) th.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows);
  };

  const command = (line) => {
    const code = make("code", {}, line);
    const button = make("button", { type: "button", class: "copy" }, "Copy");
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(line); button.textContent = "Copied"; } catch { getSelection().selectAllChildren(code); }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    return make("div", { class: "command" }, make("pre", {}, code), button);
  };

  // Light and dark: follows the system until the button is used, light in print. `recolour` redraws what CSS cannot recolour.
  const themeSwitch = (recolour) => {
    const button = document.getElementById("theme");
    const update = () => { button.textContent = isDark() ? "Light" : "Dark"; recolour(); };
    const set = (name) => { if (name) root.dataset.theme = name; else delete root.dataset.theme; update(); };
    button.textContent = isDark() ? "Light" : "Dark";
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
    button.addEventListener("click", () => set(isDark() ? "light" : "dark"));
    let before;
    addEventListener("beforeprint", () => { before = root.dataset.theme; set("light"); });
    addEventListener("afterprint", () => set(before));
  };

  // Ticks at 1, 2 and 5 times powers of ten.
  const roundNumbers = (low, high) => {
    const list = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power)
      for (const digit of [1, 2, 5]) { const value = digit * 10 ** power; if (value >= low && value <= high) list.push({ value }); }
    return list;
  };

  return { colour, make, svg, fill, details, listOf, note, tile, fixed, grouped, plural, text, number, integer, nothing, table, command, themeSwitch, short, prefixOf, si, percent, interval, mean, roundNumbers };
})();
