"use strict";
// Draws the figures from the data in the page; switches, saving, sorting. No network, no storage.
(() => {
  const MARKS = { rff: "circle", orf: "rect", sorf: "triangle", other0: "rectRot", other1: "star", other2: "rect", other3: "cross" };
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const charts = new Map();
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  // Error bars of the visible curves, under their points.
  const errorBars = {
    id: "errorBars",
    beforeDatasetsDraw(chart) {
      const { ctx, scales: { x, y }, chartArea } = chart;
      ctx.save();
      ctx.beginPath();
      ctx.rect(chartArea.left, chartArea.top, chartArea.right - chartArea.left, chartArea.bottom - chartArea.top);
      ctx.clip();
      chart.data.datasets.forEach((set, i) => {
        if (!chart.isDatasetVisible(i)) return;
        ctx.strokeStyle = set.borderColor;
        ctx.globalAlpha = set.published ? 0.5 : 0.9;
        ctx.lineWidth = 1.2;
        chart.getDatasetMeta(i).data.forEach((mark, k) => {
          const p = set.data[k];
          const cap = set.published ? 5 : 3;
          ctx.beginPath();
          if (p.e > 0) {
            // A logarithmic axis has no place below its least value.
            const low = y.getPixelForValue(Math.max(p.y - p.e, y.min));
            const high = y.getPixelForValue(p.y + p.e);
            ctx.moveTo(mark.x, low); ctx.lineTo(mark.x, high);
            ctx.moveTo(mark.x - cap, low); ctx.lineTo(mark.x + cap, low);
            ctx.moveTo(mark.x - cap, high); ctx.lineTo(mark.x + cap, high);
          }
          if (p.xe > 0) {
            const left = x.getPixelForValue(Math.max(p.x - p.xe, x.min));
            const right = x.getPixelForValue(p.x + p.xe);
            ctx.moveTo(left, mark.y); ctx.lineTo(right, mark.y);
            ctx.moveTo(left, mark.y - cap); ctx.lineTo(left, mark.y + cap);
            ctx.moveTo(right, mark.y - cap); ctx.lineTo(right, mark.y + cap);
          }
          ctx.stroke();
        });
      });
      ctx.restore();
    },
  };
  // What points are compared with: the diagonal or zero.
  const reference = {
    id: "reference",
    beforeDatasetsDraw(chart) {
      const kind = chart.options.plugins.reference.kind;
      if (kind === "none") return;
      const { ctx, scales: { x, y }, chartArea } = chart;
      const low = Math.max(x.min, y.min);
      const high = Math.min(x.max, y.max);
      ctx.save();
      ctx.strokeStyle = colour("soft");
      ctx.setLineDash([2, 4]);
      ctx.beginPath();
      if (kind === "diagonal") {
        ctx.moveTo(x.getPixelForValue(low), y.getPixelForValue(low));
        ctx.lineTo(x.getPixelForValue(high), y.getPixelForValue(high));
      } else {
        ctx.moveTo(chartArea.left, y.getPixelForValue(0));
        ctx.lineTo(chartArea.right, y.getPixelForValue(0));
      }
      ctx.stroke();
      ctx.restore();
    },
  };
  // A saved picture needs a ground.
  const ground = {
    id: "ground",
    beforeDraw(chart) {
      chart.ctx.save();
      chart.ctx.fillStyle = colour("card");
      chart.ctx.fillRect(0, 0, chart.width, chart.height);
      chart.ctx.restore();
    },
  };

  const look = (series) => {
    const c = colour(series.style);
    return {
      borderColor: c,
      pointBorderColor: c,
      pointBackgroundColor: series.published ? "rgba(0,0,0,0)" : c,
    };
  };

  const datasets = (plot) => {
    return plot.series.map((s) => {
      return {
        label: s.label,
        published: s.published,
        // Curves stand a little apart, so that their error bars do not cover each other.
        data: s.points.map((p) => ({ x: p.x + s.shift, y: p.y, e: p.e, xe: p.xe, n: p.n, r: p.x, name: p.name })),
        showLine: s.line && !s.published,
        borderWidth: s.published ? 1.4 : 2,
        borderDash: s.dashed ? [6, 4] : [],
        pointStyle: MARKS[s.style] || "circle",
        pointRadius: s.published ? 7 : 4,
        pointHoverRadius: s.published ? 8 : 6,
        pointBorderWidth: s.published ? 1.4 : 1,
        order: s.published ? 1 : 0,
        ...look(s),
      };
    });
  };

  // Room for the error bars.
  const span = (plot) => {
    let low = Infinity;
    let high = -Infinity;
    if (plot.log) {
      for (const s of plot.series) for (const p of s.points) { low = Math.min(low, p.x, p.y); high = Math.max(high, p.x + (p.xe || 0), p.y + p.e); }
      return { low: low / 1.3, high: high * 1.15 };
    }
    for (const s of plot.series) for (const p of s.points) { low = Math.min(low, p.y >= 0 ? Math.max(0, p.y - p.e) : p.y - p.e); high = Math.max(high, p.y + p.e); if (plot.most > 0) high = Math.min(high, plot.most); }
    const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
    // A quantity that cannot be negative has no room below 0.
    return { low: low >= 0 ? Math.max(0, low - room) : low - room, high: plot.most > 0 ? Math.min(plot.most, high + room) : high + room };
  };

  // The places and names of marks on x.
  const marks = (plot, xs) => plot.ticks.length ? plot.ticks : [...new Set(xs)].sort((p, q) => p - q).map((value) => ({ value }));
  // Both axes of a logarithmic plot have one range, so that its diagonal is one.
  const scales = (plot, axis) => {
    const { low, high } = span(plot);
    if (plot.log) {
      const both = (title) => ({ type: "logarithmic", min: low, max: high, ...axis(title), ticks: { ...axis(title).ticks, maxRotation: 0 } });
      return { x: both(plot.x), y: both(plot.y) };
    }
    const xs = plot.series.flatMap((s) => s.points.map((p) => p.x));
    const room = plot.ticks.length ? 0.6 : 0.3;
    return {
      x: { type: "linear", min: Math.min(...xs) - room, max: Math.max(...xs) + room, ...axis(plot.x), afterBuildTicks: (a) => { a.ticks = marks(plot, xs).map((t) => ({ ...t })); }, afterTickToLabelConversion: (a) => { if (plot.ticks.length) a.ticks.forEach((t, i) => { t.label = plot.ticks[i].label; }); } },
      y: { type: "linear", suggestedMin: low, suggestedMax: high, ...axis(plot.y) },
    };
  };

  const titleText = (plot, p) => p.name || plot.x + " = " + p.r;
  const valueText = (plot, p) => p.y.toFixed(plot.digits) + (p.n > 1 ? " ± " + p.e.toFixed(plot.digits) : "") + (p.n > 0 ? " (n = " + p.n + ")" : "");

  const options = (plot) => {
    const ink = colour("soft");
    const grid = colour("line");
    const axis = (title) => ({
      title: { display: true, text: title, color: ink },
      ticks: { color: ink, maxTicksLimit: 9 },
      grid: { color: grid, borderColor: ink },
    });
    return {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      parsing: false,
      devicePixelRatio: Math.max(2, window.devicePixelRatio || 1),
      interaction: { mode: "nearest", intersect: false },
      scales: scales(plot, axis),
      plugins: {
        legend: { display: false },
        reference: { kind: plot.reference },
        tooltip: {
          callbacks: {
            title: (items) => titleText(plot, items[0].raw),
            label: (item) => " " + item.dataset.label + ": " + valueText(plot, item.raw) + (plot.log ? ", measured " + item.raw.r.toFixed(plot.digits) : ""),
          },
        },
      },
    };
  };

  const SHAPES = {
    circle: '<circle cx="13" cy="7" r="4"/>', rect: '<rect x="9.5" y="3.5" width="7" height="7"/>',
    triangle: '<path d="M13 2.5 17.5 11h-9z"/>', rectRot: '<path d="M13 2.5 17.5 7 13 11.5 8.5 7z"/>',
    star: '<path d="M13 2v10M8 7h10M9.5 3.5l7 7M16.5 3.5l-7 7"/>', crossRot: '<path d="M9.5 3.5l7 7M16.5 3.5l-7 7"/>', cross: '<path d="M13 2v10M8 7h10"/>',
  };
  const key = (s) => {
    const line = s.published || !s.line ? "" : `<path d="M0 7h26" ${s.dashed ? 'stroke-dasharray="5 3"' : ""}/>`;
    const fill = s.published ? "none" : "currentColor";
    return `<svg class="s-${s.style}" viewBox="0 0 26 14" stroke="currentColor" stroke-width="1.6" fill="${fill}" aria-hidden="true">${line}${SHAPES[MARKS[s.style] || "circle"]}</svg>`;
  };

  const addLegend = (plot, chart) => {
    const box = document.querySelector(`.legend[data-for="${plot.id}"]`);
    const buttons = plot.series.map(() => document.createElement("button"));
    const show = (i, visible) => {
      chart.setDatasetVisibility(i, visible);
      buttons[i].setAttribute("aria-pressed", String(visible));
    };
    plot.series.forEach((s, i) => {
      const button = buttons[i];
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.innerHTML = key(s);
      button.append(s.label);
      button.addEventListener("click", () => {
        show(i, !chart.isDatasetVisible(i));
        chart.update();
      });
      box.append(button);
    });
    addGroups(plot, chart, box, show);
  };

  // With a chip beside FP32 there are many curves: one switch for each kind.
  const KINDS = { FP32: (s) => !s.dashed, chip: (s) => s.dashed, published: (s) => s.published };
  const addGroups = (plot, chart, box, show) => {
    if (!plot.series.some((s) => s.dashed) || plot.series.every((s) => s.dashed)) return;
    const row = document.createElement("div");
    row.className = "groups";
    row.append("Switch all:");
    for (const [name, is] of Object.entries(KINDS)) {
      const members = plot.series.map((s, i) => i).filter((i) => is(plot.series[i]));
      if (members.length === 0) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => {
        const visible = !members.some((i) => chart.isDatasetVisible(i));
        members.forEach((i) => show(i, visible));
        chart.update();
      });
      row.append(button);
    }
    box.after(row);
  };

  const draw = (plot) => {
    const chart = new Chart(document.getElementById("c-" + plot.id), {
      type: "line",
      data: { datasets: datasets(plot) },
      options: options(plot),
      plugins: [ground, reference, errorBars],
    });
    charts.set(plot.id, { plot, chart });
    addLegend(plot, chart);
  };

  const recolour = () => {
    for (const { plot, chart } of charts.values()) {
      plot.series.forEach((s, i) => Object.assign(chart.data.datasets[i], look(s)));
      chart.options = options(plot);
      chart.update();
    }
  };

  const save = (name, href) => {
    const link = document.createElement("a");
    link.download = name;
    link.href = href;
    document.body.append(link);
    link.click();
    link.remove();
  };

  const csv = () => {
    const quote = (v) => (/[",\r\n]/.test(v) ? '"' + String(v).replaceAll('"', '""') + '"' : v);
    const rows = [["figure", "curve", "published", "x", "mean", "error_bar", "seeds", "x_error_bar", "name"]];
    for (const { plot } of charts.values()) for (const s of plot.series) for (const p of s.points)
      rows.push([plot.id, s.label, s.published ? "yes" : "no", p.x, p.y, p.e, p.n, p.xe || 0, p.name || ""]);
    return rows.map((r) => r.map(quote).join(",")).join("\n") + "\n";
  };

  const sortBy = (table, column, head) => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    const value = (row) => {
      const cell = row.cells[column];
      const text = cell.dataset.v ?? cell.textContent;
      const number = Number(text);
      return text !== "" && Number.isFinite(number) ? number : text;
    };
    const compare = (a, b) => {
      const x = value(a);
      const y = value(b);
      if (typeof x === "number" && typeof y === "number") return x - y;
      if (typeof x === "number") return -1;
      if (typeof y === "number") return 1;
      return x.localeCompare(y);
    };
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((a, b) => (up ? compare(a, b) : compare(b, a)));
    for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows);
  };

  const switchName = () => { document.getElementById("theme").textContent = isDark() ? "Light" : "Dark"; };
  const setTheme = (name) => {
    root.dataset.theme = name;
    switchName();
    recolour();
  };

  plots.forEach(draw);
  switchName();
  if (matchMedia("(max-width: 62rem)").matches) document.querySelector("nav details").open = false;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { switchName(); recolour(); });
  document.getElementById("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  document.getElementById("csv").addEventListener("click", () => save("points.csv", URL.createObjectURL(new Blob([csv()], { type: "text/csv" }))));
  for (const button of document.querySelectorAll(".png"))
    button.addEventListener("click", () => save(button.dataset.for + ".png", charts.get(button.dataset.for).chart.toBase64Image()));
  for (const button of document.querySelectorAll(".copy"))
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code").textContent;
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { getSelection().selectAllChildren(button.parentElement.querySelector("code")); }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  for (const table of document.querySelectorAll("table.sortable"))
    [...table.tHead.rows[0].cells].forEach((head, i) => head.querySelector("button").addEventListener("click", () => sortBy(table, i, head)));

  // On paper: light, and nothing folded away but the long tables.
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; setTheme("light"); });
  addEventListener("afterprint", () => { if (before) root.dataset.theme = before; else delete root.dataset.theme; switchName(); recolour(); });
})();
