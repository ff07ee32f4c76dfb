"use strict";
// Renders the JSON document of a deployed model: floor plan, time line, energy, time, error and a table of its layers. A
// layer that is clicked in one view is highlighted in all. No network, no storage.
(() => {
  const { colour, make, svg, note, tile, grouped, plural, text, number, integer, nothing, table, command, themeSwitch, short, prefixOf, si, percent, interval, mean } = shared;
  const model = JSON.parse(document.getElementById("model").textContent);
  const { layers, steps, plan, regions, timeline } = model;
  let chosen = null;  // number of a layer
  const watchers = [];  // called when it changes

  // Numbers

  const range = (first, count) => first + " to " + (first + count - 1);
  const coreName = (core) => (plan.chips > 1 ? "chip " + Math.floor(core / plan.chip_cores) + ", " : "") + "core " + core % plan.chip_cores;
  // "chip 1, core 3" as "1 / 3", where there is little room.
  const shortName = (name) => name.replace(/chip (\d+), core /, "$1 / ");
  const tint = (layer) => layers[layer]?.colour ?? colour("other2");
  const swatch = (fill) => make("span", { class: "swatch", style: "background:" + fill });
  const countMatrices = (n) => n + (n === 1 ? " matrix" : " matrices");
  const isMatrix = (layer) => layer.inputs !== undefined;
  // Products and digital work, one after the other.
  const seconds = (layer) => layer.product_seconds + layer.digital_seconds.value;

  // Tooltip

  const tip = document.getElementById("tip");
  const showTip = (event, [title, ...lines]) => {
    tip.replaceChildren(make("b", {}, title), ...lines.map((line) => make("span", {}, line)));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18) + "px";
  };
  const hideTip = () => { tip.hidden = true; };
  const hover = (element, lines) => {
    element.addEventListener("pointermove", (event) => showTip(event, lines()));
    element.addEventListener("pointerleave", hideTip);
    return element;
  };

  // Which layer is chosen

  const hashOf = (layer) => "#layer=" + encodeURIComponent(layers[layer].name);
  const fromHash = () => {
    const found = layers.findIndex((_, i) => hashOf(i) === location.hash);
    return found < 0 ? null : found;
  };
  // Scrolls a list, not the page.
  const reveal = (row) => {
    const list = row.closest(".barlist, .cores");
    if (!list) return;
    const [box, inside] = [list.getBoundingClientRect(), row.getBoundingClientRect()];
    if (inside.top < box.top) list.scrollTop -= box.top - inside.top + 8;
    else if (inside.bottom > box.bottom) list.scrollTop += inside.bottom - box.bottom + 8;
  };
  const choose = (layer) => {
    chosen = layer;
    document.body.classList.toggle("chosen", layer !== null);
    for (const element of document.querySelectorAll("[data-layer]")) {
      const on = Number(element.dataset.layer) === layer;
      element.classList.toggle("on", on);
      if (element.tagName === "TR") element.setAttribute("aria-selected", String(on));
    }
    for (const list of document.querySelectorAll(".barlist, .cores")) { const first = list.querySelector(".on"); if (first) reveal(first); }
    const hash = layer === null ? "" : hashOf(layer);
    if (location.hash !== hash) history.replaceState(null, "", hash || location.pathname + location.search);
    watchers.forEach((watch) => watch());
  };

  const bindPage = () => {
    document.addEventListener("click", (event) => {
      const hit = event.target.closest("[data-layer]");
      if (hit) return choose(Number(hit.dataset.layer));
      if (chosen !== null && !event.target.closest("button, a, summary, aside, canvas") && getSelection().isCollapsed) choose(null);
    });
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Escape") { hideTip(); choose(null); return; }
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      // Without a chosen layer, up and down scroll the page.
      if (!step || (chosen === null && /Up|Down/.test(event.key))) return;
      event.preventDefault();
      choose(chosen === null ? (step > 0 ? 0 : layers.length - 1) : (chosen + step + layers.length) % layers.length);
    });
    addEventListener("hashchange", () => { if (fromHash() !== chosen) choose(fromHash()); });
  };

  // Header

  const header = () => {
    const { time, energy } = model;
    document.title = model.name + " on " + model.chip;
    document.querySelector("h1").textContent = model.name + " on " + model.chip;
    document.querySelector("header .lead").textContent = countMatrices(layers.filter(isMatrix).length) + " in " + plural(plan.tiles, "tile")
      + ", " + si(model.operations, "").trim() + " operations" + " per inference";
    return make("section", { id: "summary" }, make("div", { class: "tiles" },
      tile(plan.optimal ? "good" : "miss", grouped(plan.cores), plan.cores === 1 ? "core" : "cores", (plan.optimal ? "optimal: the lower bound is " : "lower bound: ") + plan.lower_bound + " (" + plan.bound + "); " + percent(plan.utilisation) + " of their cells in use"),
      tile("mute", grouped(plan.chips), plan.chips === 1 ? "chip" : "chips", grouped(plan.chip_cores) + " cores of " + plan.core_rows + " × " + plan.core_columns + " cells per chip" + (model.area_mm2 === null ? "" : "; " + si(model.area_mm2, "mm²") + " in all")),
      tile("mute", si(time.latency_seconds, "s"), "latency", "at least " + si(time.latency_bound_seconds, "s") + " (" + time.latency_bound + "); then one inference every " + si(time.interval_seconds, "s")),
      tile("mute", si(energy.joules, "J"), "energy per inference", "cores " + si(energy.core_joules, "J") + ", digital unit " + interval(energy.digital_joules, "J") + ", links " + interval(energy.link_joules, "J")),
      model.error ? tile("mute", percent(Math.sqrt(model.error.squared_error.mean)), "error of the outputs", "relative to FP32, over " + plural(model.error.chips, "chip")) : tile("mute", "–", "error of the outputs", "not measured"),
      tile("good", "✓", "verified", model.verified.join("; "))), command(model.command));
  };

  // Floor plan

  const label = (name, width, height, scale) => {
    const turned = height > width && name.length * 5.8 > width * scale;
    const room = Math.floor(((turned ? height : width) * scale - 6) / 5.8);
    if ((turned ? width : height) * scale < 13 || room < 3) return null;
    return svg("text", { x: 0, y: 0, "font-size": 10.5 / scale, transform: turned ? "rotate(-90)" : undefined }, name.length <= room ? name : "…" + name.slice(name.length - room + 1));
  };
  const regionMark = ([layer, copy, core, row, column, firstRow, rows, firstColumn, columns], use, scale) => {
    const one = layers[layer];
    const mark = svg("g", { "data-layer": layer }, svg("rect", { x: column, y: row, width: columns, height: rows, fill: one.colour }));
    const words = label(one.name.replace(/\.weight(\.folded)?$/, ""), columns, rows, scale);
    if (words) mark.append(svg("g", { transform: "translate(" + (column + columns / 2) + " " + (row + rows / 2) + ")" }, words));
    return hover(mark, () => [one.name + (one.copies > 1 ? ", copy " + copy : ""), "tile: inputs " + range(firstRow, rows) + ", outputs " + range(firstColumn, columns),
      "cells: rows " + range(row, rows) + ", columns " + range(column, columns), coreName(core) + ": " + percent(use.utilisation) + " of its cells in use"]);
  };
  const coreFigure = (use, size, here) => {
    const scale = size / Math.max(plan.core_rows, plan.core_columns);
    return make("figure", { class: "core" }, make("div", {}, make("b", {}, shortName(coreName(use.core))), percent(use.utilisation)),
      svg("svg", { viewBox: "0 0 " + plan.core_columns + " " + plan.core_rows, width: plan.core_columns * scale, height: plan.core_rows * scale, role: "img", "aria-label": coreName(use.core) + ": " + plural(here.length, "region") },
        here.map((region) => regionMark(region, use, scale))));
  };
  const floorPlan = () => {
    const byCore = new Map(model.cores.map((use) => [use.core, []]));
    for (const region of regions) byCore.get(region[2]).push(region);
    const size = plan.cores <= 2 ? 340 : plan.cores <= 3 ? 280 : plan.cores <= 12 ? 180 : plan.cores <= 40 ? 120 : 96;
    return make("section", { id: "floor-plan" }, make("h2", {}, "Floor plan"),
      note("Every used core and the tiles on it, one colour per matrix: inputs from top to bottom, outputs from left to right" + (plan.chips > 1 ? ". Titles: chip / core, share of the cells in use." : "; the share of the cells in use.")),
      make("div", { class: "card" }, make("div", { class: "cores", style: "grid-template-columns:repeat(auto-fill," + size + "px)" }, model.cores.map((use) => coreFigure(use, size, byCore.get(use.core))))));
  };

  // Time line

  const NANO = 1e-9;
  const LEFT = 92;
  const RIGHT = 14;
  const TOP = 6;
  const AXIS = 24;
  const laneHeight = Math.max(4, Math.min(26, Math.floor(640 / timeline.lanes.length)));
  const bottom = TOP + laneHeight * timeline.lanes.length;
  const whole = timeline.spans.reduce((last, s) => Math.max(last, s[7]), 1e-3);
  const view = { from: 0, to: whole };  // ns
  const laneSpans = timeline.lanes.map((_, lane) => timeline.spans.filter((s) => s[0] === lane));
  const spanLayers = (span) => (span[2] >= 0 ? [span[2]] : steps[span[1]].layers);
  const canvas = make("canvas", { class: "gantt", role: "img", tabindex: "0", "aria-label": "Time line: " + plural(timeline.lanes.length, "resource") + ", " + plural(timeline.spans.length, "span") + ". The table of layers has the same times." });
  const plotWidth = () => canvas.clientWidth - LEFT - RIGHT;
  const xOf = (time) => LEFT + ((time - view.from) / (view.to - view.from)) * plotWidth();
  const timeOf = (x) => view.from + ((x - LEFT) / plotWidth()) * (view.to - view.from);

  // 1, 2 or 5 times a power of ten.
  const tickOf = (length) => {
    const power = 10 ** Math.floor(Math.log10(length / 4));
    return power * ([5, 2].find((f) => length / (f * power) >= 4) ?? 1);
  };
  const drawAxis = (pen) => {
    const tick = tickOf((view.to - view.from) * Math.max(1, 500 / plotWidth()));
    const unit = prefixOf(view.to * NANO);
    pen.textAlign = "center";
    for (let n = Math.ceil(view.from / tick); n * tick <= view.to; ++n) {
      const x = xOf(n * tick);
      pen.strokeStyle = colour("line");
      pen.beginPath(); pen.moveTo(x, TOP); pen.lineTo(x, bottom + 3); pen.stroke();
      pen.fillStyle = colour("soft");
      const label = Number(((n * tick * NANO) / unit[0]).toPrecision(6)) + " " + unit[1] + "s";
      pen.fillText(label, Math.min(x, canvas.clientWidth - pen.measureText(label).width / 2), bottom + 14);
    }
  };
  const drawLanes = (pen) => {
    const every = Math.ceil(12 / laneHeight);
    pen.textAlign = "right";
    timeline.lanes.forEach((lane, i) => {
      if (i % 2 === 0) { pen.fillStyle = colour("mute-bg"); pen.globalAlpha = 0.5; pen.fillRect(LEFT, TOP + i * laneHeight, plotWidth(), laneHeight); pen.globalAlpha = 1; }
      if (i % every && lane.kind === "core") return;
      pen.fillStyle = colour("soft");
      pen.fillText(shortName(lane.name), LEFT - 8, TOP + (i + 0.5) * laneHeight);
    });
  };
  const drawSpans = (pen, drawn) => {
    const ink = colour("ink");
    const tints = layers.map((_, i) => tint(i));
    const gap = laneHeight > 8 ? 2 : laneHeight > 5 ? 1 : 0;
    for (const span of timeline.spans) {
      const on = chosen !== null && spanLayers(span).includes(chosen);
      if (on !== drawn || span[7] < view.from || span[6] > view.to) continue;
      const left = Math.max(LEFT, xOf(span[6]));
      const width = Math.max(0.8, Math.min(LEFT + plotWidth(), xOf(span[7])) - left);
      const y = TOP + span[0] * laneHeight + gap / 2;
      pen.globalAlpha = chosen === null || on ? 1 : 0.18;
      pen.fillStyle = tints[on ? chosen : spanLayers(span)[0]];
      pen.fillRect(left, y, width, laneHeight - gap);
      if (on && width > 3) { pen.strokeStyle = ink; pen.strokeRect(left + 0.5, y + 0.5, width - 1, laneHeight - gap - 1); }
    }
    pen.globalAlpha = 1;
  };
  const drawBound = (pen) => {
    const x = xOf(model.time.latency_bound_seconds / NANO);
    if (x < LEFT || x > LEFT + plotWidth()) return;
    pen.strokeStyle = colour("bad");
    pen.setLineDash([4, 3]);
    pen.beginPath(); pen.moveTo(x, TOP); pen.lineTo(x, bottom); pen.stroke();
    pen.setLineDash([]);
  };
  const drawTimeline = () => {
    const density = devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * density);
    canvas.height = Math.round((bottom + AXIS) * density);
    canvas.style.height = bottom + AXIS + "px";
    const pen = canvas.getContext("2d");
    pen.scale(density, density);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    drawLanes(pen);
    drawAxis(pen);
    drawSpans(pen, false);
    drawSpans(pen, true);
    drawBound(pen);
    Object.assign(canvas.dataset, { from: view.from, to: view.to, left: LEFT, right: RIGHT, top: TOP, lane: laneHeight });
  };
  const lookAt = (from, to) => {
    const length = Math.min(whole, Math.max(whole * 1e-5, to - from));
    view.from = Math.max(0, Math.min(from, whole - length));
    view.to = view.from + length;
    drawTimeline();
  };
  const zoom = (factor, at = (view.from + view.to) / 2) => lookAt(at - (at - view.from) * factor, at + (view.to - at) * factor);

  // The span at a point, within two pixels.
  const spanAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const spans = laneSpans[Math.floor((event.clientY - box.top - TOP) / laneHeight)];
    const time = timeOf(event.clientX - box.left);
    if (!spans || event.clientX - box.left < LEFT) return null;
    const slack = (2 * (view.to - view.from)) / plotWidth();
    const distance = (s) => Math.max(0, s[6] - time, time - s[7]);
    const near = spans.filter((s) => distance(s) <= slack).sort((a, b) => distance(a) - distance(b));
    return near[0] ?? null;
  };
  const spanLines = (span) => {
    const step = steps[span[1]];
    const names = spanLayers(span).map((l) => layers[l].name);
    return [step.name, timeline.lanes[span[0]].name + ": " + (span[2] >= 0 ? "products of " : "digital work (" + step.op + ") after ") + names.slice(0, 3).join(", ") + (names.length > 3 ? ", …" : "") + (span[2] >= 0 && layers[span[2]].copies > 1 ? ", copy " + span[3] : ""),
      plural(span[5], "row") + " of " + step.rows + " from row " + span[4], "from " + si(span[6] * NANO, "s") + " to " + si(span[7] * NANO, "s") + " (" + si((span[7] - span[6]) * NANO, "s") + ")"];
  };

  const bindTimeline = () => {
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, from: view.from, to: view.to, moved: false }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      const shift = drag ? event.clientX - drag.x : 0;
      if (drag && (drag.moved || Math.abs(shift) > 4)) {
        drag.moved = true;
        hideTip();
        const time = (shift / plotWidth()) * (drag.to - drag.from);
        lookAt(drag.from - time, drag.to - time);
        return;
      }
      const span = spanAt(event);
      canvas.classList.toggle("hit", span !== null);
      if (span) showTip(event, spanLines(span)); else hideTip();
    });
    canvas.addEventListener("pointerup", (event) => {
      const clicked = drag && !drag.moved;
      drag = null;
      if (!clicked) return;
      const span = spanAt(event);
      const owners = span ? spanLayers(span) : [];
      if (!owners.includes(chosen) || chosen === null) choose(owners[0] ?? null);
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("wheel", (event) => {
      // A plain wheel scrolls the page.
      if (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
      event.preventDefault();
      const pan = (event.deltaX / plotWidth()) * (view.to - view.from);
      if (event.ctrlKey) zoom(Math.exp(event.deltaY / 250), timeOf(event.clientX - canvas.getBoundingClientRect().left));
      else lookAt(view.from + pan, view.to + pan);
    }, { passive: false });
    new ResizeObserver(() => drawTimeline()).observe(canvas);
  };
  const timelineButtons = () => {
    const button = (id, title, action) => {
      const element = make("button", { type: "button", id }, title);
      element.addEventListener("click", action);
      return element;
    };
    const toLayer = button("zoom-layer", "Selected layer", () => {
      const { begin_seconds: begin, end_seconds: end } = layers[chosen];
      const margin = 0.05 * (end - begin);
      lookAt((begin - margin) / NANO, (end + margin) / NANO);
    });
    const update = () => { toLayer.disabled = chosen === null || layers[chosen].begin_seconds === null; };
    watchers.push(update);
    update();
    return make("div", { class: "actions" }, button("zoom-in", "Zoom in", () => zoom(0.5)), button("zoom-out", "Zoom out", () => zoom(2)), button("zoom-all", "Whole time line", () => lookAt(0, whole)), toLayer);
  };
  const timelineSection = () => make("section", { id: "time-line" }, make("h2", {}, "Time line"),
    note("One inference on the cores, the digital unit and the host link. The dashed line is the lower bound of the latency. Drag to move; Ctrl and the wheel, or the buttons, zoom."
      + (timeline.window_seconds > 0 ? " Simplified: of the work within " + si(timeline.window_seconds, "s") + " on one resource, only the step with the most time is drawn." : "")),
    make("div", { class: "card" }, timelineButtons(), canvas));

  // Bars: each row has one or more tracks, each with consecutive parts and an interval.

  const bars = (title, keys, rows, caption) => {
    const all = rows.flatMap((row) => row.tracks).flatMap((t) => [t.parts.reduce((sum, p) => sum + p, 0), t.low ?? 0, t.high ?? 0]);
    const most = all.reduce((a, b) => Math.max(a, b), 0) || 1;
    const least = all.reduce((a, b) => Math.min(a, b), 0);
    const place = (value) => (100 * (value - least)) / (most - least);
    const track = (t, number) => {
      let at = 0;
      const parts = t.parts.map((value, i) => {
        const [low, high] = [Math.min(at, at + value), Math.max(at, at + value)];
        at += value;
        return make("i", { class: "p" + (t.parts.length > 1 ? i : number), style: "left:" + place(low) + "%;width:" + (place(high) - place(low)) + "%" });
      });
      const whisker = t.high > t.low ? make("u", { style: "left:" + place(t.low) + "%;width:" + (place(t.high) - place(t.low)) + "%" }) : null;
      return make("div", { class: "track" }, parts, whisker);
    };
    const line = (row) => hover(make("div", { class: "barrow", "data-layer": row.layer }, make("b", {}, row.layer === undefined ? null : swatch(tint(row.layer)), make("bdi", {}, make("bdo", { dir: "ltr" }, row.name))), make("div", { class: "tracks" }, row.tracks.map(track)), make("span", {}, row.shown)), () => [row.name, ...row.lines]);
    return make("figure", { class: "card" }, make("div", { class: "cardhead" }, make("h4", {}, title)),
      keys.length ? make("div", { class: "keys" }, keys.map((name, i) => make("span", {}, make("span", { class: "swatch p" + i }), name))) : null,
      make("div", { class: "barlist" }, rows.map(line)), caption ? make("figcaption", { style: "margin:0.6rem 0 0" }, caption) : null);
  };
  // One row per layer for which `has` is true.
  const layerRows = (has, row) => layers.flatMap((layer, i) => (has(layer) ? [{ layer: i, name: layer.name, ...row(layer) }] : []));

  const energyBars = () => bars("Energy per layer", ["cores", "digital unit", "links"], layerRows(() => true, (layer) => {
    const core = layer.core_joules ?? 0;
    const [digital, link] = [layer.digital_joules, layer.link_joules];
    return { tracks: [{ parts: [core, digital.value, link.value], low: core + digital.low + link.low, high: core + digital.high + link.high }], shown: si(core + digital.value + link.value, "J"),
      lines: ["cores: " + si(layer.core_joules, "J"), "digital unit: " + interval(digital, "J"), "links: " + interval(link, "J")] };
  }), model.energy.core_joules === null ? "The power of this chip is unknown: the energy of its cores is missing." : "Whiskers: interval of the digital unit and the links.");
  const timeBars = () => bars("Time per layer", ["products", "digital unit"], layerRows(() => true, (layer) => {
    const digital = layer.digital_seconds;
    return { tracks: [{ parts: [layer.product_seconds, digital.value], low: layer.product_seconds + digital.low, high: layer.product_seconds + digital.high }], shown: si(seconds(layer), "s"),
      lines: ["products: " + si(layer.product_seconds, "s"), "digital unit: " + interval(digital, "s"), ...windowLines(layer)] };
  }), "Work of a layer alone, without waiting. Layers overlap in the time line.");
  const windowLines = (layer) => (layer.begin_seconds === null ? [] : ["in the time line from " + si(layer.begin_seconds, "s") + " to " + si(layer.end_seconds, "s")]);
  const costSection = () => make("section", { id: "costs" }, make("h2", {}, "Energy and time"), note("Each matrix with the digital operators between its products and the next ones."), make("div", { class: "grid" }, energyBars(), timeBars()));

  // Error

  const track = (m, scale = 1) => ({ parts: [scale * m.mean], low: scale * (m.mean - (m.ci95 ?? 0)), high: scale * (m.mean + (m.ci95 ?? 0)) });
  const errorSection = () => {
    const title = make("h2", {}, "Error");
    if (!model.error)
      return make("section", { id: "error" }, title, model.explain_command ? [make("p", {}, "Errors were not measured. This command adds them:"), command(model.explain_command)] : note("A list of matrices has no weights, so there is no error to show."));
    const scale = 1 / model.error.squared_error.mean;
    const own = layerRows((layer) => layer.error, ({ error: e }) => ({ tracks: [track(e.own), track(e.accumulated)], shown: short(100 * e.own.mean) + " / " + percent(e.accumulated.mean), lines: ["own: " + mean(e.own), "accumulated: " + mean(e.accumulated)] }));
    const share = layerRows((layer) => layer.error, ({ error: e }) => ({ tracks: [track(e.added_squared, scale)], shown: percent(scale * e.added_squared.mean), lines: ["added: " + mean(e.added_squared, scale), "alone: " + mean(e.alone_squared, scale)] }));
    const causes = [...model.error.causes].sort((a, b) => b.saved_share.mean - a.saved_share.mean)
      .map((c) => ({ name: c.name, tracks: [track(c.alone_share), track(c.saved_share)], shown: percent(c.saved_share.mean), lines: [c.help, "alone: " + mean(c.alone_share), "removal saves: " + mean(c.saved_share)] }));
    return make("section", { id: "error" }, title, note("Relative to FP32, over " + plural(model.error.chips, "chip") + ". Whiskers: 95 % interval of the mean."), make("div", { class: "grid" },
      bars("Error of the products", ["own", "accumulated"], own, "Own: error against exact products of the same inputs. Accumulated: error against the products of the FP32 model."),
      bars("Share of the squared error of the outputs", [], share, "Added when a matrix joins those above it on the chip. The shares add up to 100 %."),
      bars("Causes", ["alone", "saved by its removal"], causes, "Shares of the squared error of the outputs.")));
  };

  // Table

  const layerTable = () => {
    const named = (layer, i) => ({ body: [make("button", { type: "button" }, swatch(tint(i)), layer.name)], sort: i });
    const cells = (layer, i) => [named(layer, i),
      ...(isMatrix(layer) ? [number(layer.inputs * layer.outputs, layer.inputs + " × " + layer.outputs), integer(layer.tiles), integer(layer.copies), integer(layer.uses), number(layer.vectors, grouped(layer.vectors)),
        number(layer.cores.length, grouped(layer.cores.length)), number(layer.core_products, grouped(Math.round(layer.core_products)))] : Array.from({ length: 7 }, nothing)),
      number(seconds(layer), si(seconds(layer), "s")), number(layer.joules, si(layer.joules, "J")),
      ...(model.error ? (layer.error ? [number(layer.error.own.mean, mean(layer.error.own)), number(layer.error.accumulated.mean, mean(layer.error.accumulated))] : [nothing(), nothing()]) : [])];
    const parts = table("Layers in the order of the model. Cores: how many hold tiles of the matrix; products: of all cores, per inference; time: products and digital work without waiting",
      ["layer", "size", "tiles", "copies", "uses", "vectors", "cores", "products", "time", "energy", ...(model.error ? ["own error", "accumulated"] : [])], layers.map(cells));
    parts[1].querySelectorAll("tbody tr").forEach((row, i) => { row.dataset.layer = i; });
    return make("section", { id: "layers", class: "layers" }, make("h2", {}, "Layers"), parts);
  };

  // Details of the chosen layer

  const facts = (rows) => make("dl", {}, rows.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  const most = (list, shown) => list.slice(0, shown).join(", ") + (list.length > shown ? ", … (" + list.length + ")" : "");
  const clear = make("button", { type: "button" }, "Clear");
  clear.addEventListener("click", () => choose(null));
  const detailsOf = (i) => {
    const layer = layers[i];
    const own = steps.filter((step) => step.layers.includes(i));
    const rows = isMatrix(layer) ? [["size", layer.inputs + " inputs × " + layer.outputs + " outputs"], ["tiles", layer.tiles + (layer.copies > 1 ? " in " + layer.copies + " copies" : "")], ["cores", most(layer.cores, 12)],
      ["uses", plural(layer.uses, "call") + " of " + plural(layer.vectors, "vector")], ["products", grouped(Math.round(layer.core_products))], ["operations", si(layer.operations, "").trim()]] : [];
    return [make("h2", {}, swatch(tint(i)), layer.name), facts([...rows,
      ["products take", si(layer.product_seconds, "s")], ["digital work", interval(layer.digital_seconds, "s")],
      ["active", layer.begin_seconds === null ? "never" : si(layer.begin_seconds, "s") + " to " + si(layer.end_seconds, "s")],
      ["core energy", si(layer.core_joules, "J")], ["digital energy", interval(layer.digital_joules, "J")], ["link energy", interval(layer.link_joules, "J")],
      ...(layer.error ? [["own error", mean(layer.error.own)], ["accumulated", mean(layer.error.accumulated)], ["share of error²", mean(layer.error.added_squared, 1 / model.error.squared_error.mean)]] : [])]),
    own.length ? [make("h3", {}, "Steps"), make("ul", {}, own.slice(0, 40).map((step) => make("li", {}, step.name + " ", make("span", {}, step.op + ", " + plural(step.rows, "row")))), own.length > 40 ? make("li", {}, "and " + (own.length - 40) + " more") : null)] : null, make("p", {}, clear)];
  };
  const hints = () => [make("h2", {}, "No layer selected"), make("p", {}, "Click a layer in any view to see it in all of them."),
    make("p", {}, make("kbd", {}, "←"), " ", make("kbd", {}, "→"), " move between layers, ", make("kbd", {}, "Esc"), " clears. The address of the page keeps the selection.")];
  const panel = make("div", { class: "panel" });
  const showDetails = () => panel.replaceChildren(...(chosen === null ? hints() : detailsOf(chosen)).flat(Infinity).filter(Boolean));

  document.querySelector("main").append(header(), floorPlan(), timelineSection(), costSection(), errorSection(), layerTable());
  document.querySelector("aside").append(panel);
  watchers.push(drawTimeline, showDetails);
  bindPage();
  bindTimeline();
  themeSwitch(drawTimeline);
  choose(fromHash());
})();
