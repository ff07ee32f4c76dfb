"use strict";
// Renders the JSON document that compares chips for one model: error against energy and latency, and a table. A chip that
// is clicked in one view is highlighted in all. No network, no storage.
(() => {
  const { colour, make, note, tile, plural, text, number, integer, nothing, table, command, themeSwitch, short, si, percent, interval, mean, roundNumbers } = shared;
  const model = JSON.parse(document.getElementById("model").textContent);
  const { axes, points, assumptions } = model;
  const known = points.every((p) => p.energy_joules !== null);
  const charts = [];
  let chosen = null;  // number of a chip

  const setting = (p) => axes.map((axis, k) => axis.key + " = " + p.values[k]);
  const lines = (p) => ["error " + mean(p.error), ...(known ? ["energy " + interval(p.energy_joules, "J")] : []), "latency " + si(p.latency_seconds, "s"),
    plural(p.cores, "core") + " on " + plural(p.chips, "chip"), ...(p.area_mm2 ? ["area " + area(p.area_mm2)] : [])];
  // Without an SI prefix: "mmm²" is not a unit.
  const area = ({ value, low, high }) => short(value) + (low < high ? " (" + short(low) + " to " + short(high) + ")" : "") + " mm²";

  // Header

  const least = (value) => points.reduce((best, p) => (value(p) < value(best) ? p : best));
  const leastTile = (value, shown, name) => { const p = least(value); return tile("mute", shown(p), name, setting(p).join(", ")); };
  const header = () => {
    const title = model.name + " on variants of " + model.chip;
    document.title = title;
    document.querySelector("h1").textContent = title;
    document.querySelector("header .lead").textContent = plural(points.length, "chip") + ": " + axes.map((a) => a.key + " = " + a.values.join(", ")).join("; ");
    return make("section", { id: "summary" }, make("div", { class: "tiles" },
      tile("good", points.filter((p) => p.best).length + " of " + points.length, "best", "no other chip is at least as good in error, energy and latency, and better in one"),
      leastTile((p) => p.error.mean, (p) => percent(p.error.mean), "lowest error"),
      known ? leastTile((p) => p.energy_joules.value, (p) => si(p.energy_joules.value, "J"), "lowest energy") : tile("mute", "–", "lowest energy", "the power of the chip is unknown"),
      leastTile((p) => p.latency_seconds, (p) => si(p.latency_seconds, "s"), "lowest latency")), command(model.command));
  };

  // Charts

  // Intervals of both quantities.
  const bars = {
    id: "bars",
    beforeDatasetsDraw({ ctx, data, scales: { x, y } }) {
      ctx.save();
      ctx.lineWidth = 1;
      for (const set of data.datasets) {
        ctx.strokeStyle = set.borderColor;
        ctx.globalAlpha = 0.55;
        for (const p of set.data) {
          ctx.beginPath();
          ctx.moveTo(x.getPixelForValue(p.low), y.getPixelForValue(p.y));
          ctx.lineTo(x.getPixelForValue(p.high), y.getPixelForValue(p.y));
          ctx.moveTo(x.getPixelForValue(p.x), y.getPixelForValue(Math.max(y.min, p.y - p.e)));
          ctx.lineTo(x.getPixelForValue(p.x), y.getPixelForValue(p.y + p.e));
          ctx.stroke();
        }
      }
      ctx.restore();
    },
  };
  const ground = {
    id: "ground",
    beforeDraw({ ctx, width, height }) { ctx.save(); ctx.fillStyle = colour("card"); ctx.fillRect(0, 0, width, height); ctx.restore(); },
  };
  const dataset = (best, quantity) => ({
    label: best ? "best" : "others",
    data: points.map((p, i) => ({ i, y: 100 * p.error.mean, e: 100 * (p.error.ci95 ?? 0), ...quantity(p) })).filter(({ i }) => points[i].best === best),
    borderColor: colour(best ? "orf" : "other2"),
    backgroundColor: best ? colour("orf") : colour("card"),
    pointBorderWidth: 2,
    pointRadius: ({ raw }) => (raw?.i === chosen ? 11 : best ? 6.5 : 5),
    pointHoverRadius: 9,
  });
  const options = (title, unit, spread) => {
    const axis = (label) => ({ title: { display: true, text: label, color: colour("soft") }, ticks: { color: colour("soft"), maxTicksLimit: 9 }, grid: { color: colour("line"), borderColor: colour("soft") } });
    const x = axis(title);
    return {
      animation: false, responsive: true, maintainAspectRatio: false, parsing: false, devicePixelRatio: Math.max(2, devicePixelRatio || 1),
      onClick: (_, hits) => choose(hits.length ? hits[0].element.$context.raw.i : null),
      scales: {
        x: { type: "logarithmic", min: spread[0] / 1.25, max: spread[1] * 1.25, ...x, afterBuildTicks: (a) => { const round = roundNumbers(a.min, a.max); if (round.length > 1) a.ticks = round; }, ticks: { ...x.ticks, maxRotation: 0, callback: (value) => si(value, unit) } },
        y: { beginAtZero: true, suggestedMax: 105 * Math.max(...points.map((p) => p.error.mean + (p.error.ci95 ?? 0))), ...axis("error of the outputs (%)") },
      },
      plugins: {
        legend: { display: false },
        tooltip: { displayColors: false, callbacks: { title: ([item]) => setting(points[item.raw.i]).join(", "), label: ({ raw }) => [...lines(points[raw.i]), ...(points[raw.i].best ? ["best"] : [])] } },
      },
    };
  };
  const chart = (id, title, unit, quantity) => {
    const canvas = make("canvas", { id, role: "img", "aria-label": "Error of the outputs against " + title + ". The table has all numbers." });
    const spread = [Math.min(...points.map((p) => quantity(p).low)), Math.max(...points.map((p) => quantity(p).high))];
    const label = title + " of an inference";
    charts.push({ canvas, data: () => ({ datasets: [dataset(true, quantity), dataset(false, quantity)] }), options: () => options(label, unit, spread) });
    return make("figure", { class: "card" }, make("h4", {}, "Error against " + title), make("div", { class: "plot" }, canvas));
  };
  const plots = () => make("section", { id: "charts" }, make("h2", {}, "Accuracy against energy and time"),
    note("One mark per chip; the bars are the 95 % interval of the error over " + plural(model.seeds, "chip") + " of the same kind and the interval of the energy. Click a mark to highlight the chip in all views."),
    make("p", { class: "keys" }, make("span", {}, make("i", { class: "dot best" }), "best"), make("span", {}, make("i", { class: "dot other" }), "others")),
    make("div", { class: "grid" },
      known ? chart("c-energy", "energy", "J", ({ energy_joules: e }) => ({ x: e.value, low: e.low, high: e.high })) : null,
      chart("c-latency", "latency", "s", ({ latency_seconds: s }) => ({ x: s, low: s, high: s }))));
  const draw = () => {
    for (const one of charts) one.chart = new Chart(one.canvas, { type: "scatter", data: one.data(), options: one.options(), plugins: [ground, bars] });
  };
  const redraw = () => {
    for (const one of charts) { one.chart.data = one.data(); one.chart.options = one.options(); one.chart.update(); }
  };

  // Tables

  const row = (p) => [text(p.best ? "yes" : ""), ...p.values.map((v) => (Number.isFinite(Number(v)) ? number(Number(v), v) : text(v))), integer(p.cores), integer(p.chips), number(p.latency_seconds, si(p.latency_seconds, "s")),
    p.energy_joules ? number(p.energy_joules.value, interval(p.energy_joules, "J")) : nothing(), p.area_mm2 ? number(p.area_mm2.value, area(p.area_mm2)) : nothing(), number(p.error.mean, mean(p.error))];
  const chips = () => {
    const section = make("section", { id: "chips" }, make("h2", {}, "Chips"),
      table("Every combination of the values; error of the outputs relative to FP32, ± half of its 95 % interval", ["best", ...axes.map((a) => a.key), "cores", "chips", "latency", "energy", "area", "error"], points.map(row)));
    section.querySelectorAll("tbody tr").forEach((element, i) => { element.dataset.chip = i; element.addEventListener("click", () => choose(i === chosen ? null : i)); });
    return section;
  };
  const assumed = () => (assumptions.length === 0 ? null : make("section", { id: "assumptions" }, make("h2", {}, "Assumptions"),
    note("Power and area are known for one chip only. For cores of other sizes, other nodes and several tiers, energies and areas follow from these parameters; their intervals are the bars above. Tiers share converters, so their products run one after another."),
    table("Shares and exponents", ["parameter", "value", "interval", "unit", "source"], assumptions.map((p) => [text(p.name), number(p.value, short(p.value)), text(short(p.low) + " to " + short(p.high)), text(p.unit), text(p.source)]))));

  const choose = (i) => {
    chosen = i;
    for (const element of document.querySelectorAll("[data-chip]")) element.classList.toggle("on", Number(element.dataset.chip) === i);
    redraw();
  };

  document.querySelector("main").append(...[header(), plots(), chips(), assumed()].filter(Boolean));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") choose(null); });
  draw();
  themeSwitch(redraw);
})();
