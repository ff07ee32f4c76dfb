"use strict";
// Renders the JSON document in the page: summary, warnings, figures, tables. No network, no storage. Text from the document
// becomes text nodes and attributes, never markup.
(() => {
  const { colour, make, svg, fill, details, listOf, note, fixed, grouped, plural, text, number, integer, nothing, table, tile, command, themeSwitch, roundNumbers } = shared;

  const MARKS = { rff: "circle", orf: "rect", sorf: "triangle", other0: "rectRot", other1: "star", other2: "rect", other3: "cross" };
  const report = JSON.parse(document.getElementById("report").textContent);
  const plots = [];
  const charts = new Map();
  // A paragraph with its first words in bold.
  const boldNote = (kind, title, text) => make("p", { class: kind }, make("b", {}, title), " " + text);
  const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60);
  // Unique anchors for any names.
  const taken = new Set();
  const unique = (id) => { let free = id; for (let i = 2; taken.has(free); ++i) free = id + "-" + i; taken.add(free); return free; };

  // Numbers

  const ratioText = (r) => String(Number(r.toPrecision(4)));
  const signed = (value, digits) => {
    if (!Number.isFinite(value)) return value > 0 ? "+∞" : "−∞";
    const text = fixed(Math.abs(value), digits);
    return /[1-9]/.test(text) ? (value < 0 ? "−" : "+") + text : text;
  };
  const PERCENT = { scale: 100, digits: 2, percent: true };
  const PLAIN = { scale: 1, digits: 4, percent: false };
  const shownAs = (quantity) => (quantity === "accuracy" ? PERCENT : PLAIN);
  const quantityName = (quantity) => (quantity === "accuracy" ? "accuracy" : "Gram error");
  // The spread of one seed is unknown: null.
  const plusMinus = (spread, digits) => (spread === null ? "" : " ± " + fixed(spread, digits));
  const meanText = (mean, spread, as) => fixed(as.scale * mean, as.digits) + plusMinus(spread === null ? null : as.scale * spread, as.digits);
  // A ratio to a spread of 0 is infinite, which JSON cannot express.
  const ratio = (difference, spread) => (spread > 0 ? difference / spread : Math.sign(difference) * Infinity);
  const inErrors = (p) => p.standard_errors ?? Math.sign(p.difference) * Infinity;

  // Verdicts

  const VERDICTS = {
    reproduced: { word: "reproduced", kind: "good", mark: "✓ " }, deviates: { word: "deviates", kind: "bad", mark: "✗ " }, missing: { word: "missing", kind: "miss", mark: "" },
    other_protocol: { word: "not judged", kind: "mute", mark: "" }, unpublished: { word: "no published value", kind: "mute", mark: "" },
  };
  const judged = (value, digits, name) => {
    const verdict = VERDICTS[name];
    return { body: [make("span", { class: "v " + verdict.kind, title: verdict.word }, verdict.mark + signed(value, digits))], sort: value, number: true };
  };
  const verdictCell = (p) => ({ body: [make("span", { class: "v " + VERDICTS[p.verdict].kind, title: p.reason }, VERDICTS[p.verdict].word)] });

  // Figures

  const card = (plot, parts) => {
    const save = make("button", { type: "button", class: "png", "data-for": plot.id }, "Save PNG");
    save.addEventListener("click", () => saveAs(plot.id + ".png", charts.get(plot.id).chart.toBase64Image()));
    plots.push(plot);
    return make("figure", { class: "card", id: plot.id },
      make("div", { class: "cardhead" }, make("h4", {}, make("a", { href: "#" + plot.id }, parts.title)), parts.badge),
      make("div", { class: "chart" }, make("canvas", { id: "c-" + plot.id, role: "img", "aria-label": plot.title + ". " + plot.alt })),
      make("div", { class: "legend", "data-for": plot.id }),
      make("figcaption", {}, parts.caption), parts.above, make("div", { class: "actions" }, save), parts.below);
  };
  const plainCards = (list, caption) => (list.length ? make("div", { class: "grid" }, list.map((plot) => card(plot, { title: plot.title, caption }))) : null);

  const hasPublished = (v) => v.reproduced + v.deviates + v.other_protocol + v.missing > 0;
  const badge = (v) => {
    if (!hasPublished(report.verdicts)) return null;
    const all = v.reproduced + v.deviates;
    const [kind, words] = v.deviates > 0 ? ["bad", v.deviates + " of " + all + " deviate"] : all > 0 ? ["good", v.reproduced + " of " + all + " reproduced"]
      : v.other_protocol > 0 ? ["mute", "another protocol"] : ["mute", "no published value"];
    return make("span", { class: "badge " + kind }, words);
  };

  // imka, published, difference, in standard errors; only imka where the figure has no published values
  const comparisonColumns = (figure) => (hasPublished(figure.verdicts) ? ["imka", "published", "Δ", "Δ / se"] : ["imka"]);
  const comparison = (figure, p, as) => {
    const both = p.imka && p.published;
    const imka = p.imka ? number(p.imka.mean, meanText(p.imka.mean, p.imka.std, as)) : nothing();
    if (!hasPublished(figure.verdicts)) return [imka];
    return [imka,
      p.published ? number(p.published.mean, meanText(p.published.mean, p.published.std, as)) : nothing(),
      both ? number(p.difference, signed(as.scale * p.difference, as.digits)) : nothing(),
      both ? judged(inErrors(p), 1, p.verdict) : nothing()];
  };

  const points = (figure) => figure.curves.flatMap((curve) => curve.points.map((p) => ({ label: curve.label, ...p })));

  const headlineTable = (figure) => {
    const as = shownAs(figure.quantity);
    const last = Math.max(...points(figure).filter((p) => p.imka).map((p) => p.log_ratio));
    return table("At log2(m/d) = " + ratioText(last) + ": mean ± standard deviation over seeds" + (as.percent ? ", in percent" : "") + (hasPublished(figure.verdicts) ? "; Δ in combined standard errors (se): ✓ reproduced, ✗ deviates" : ""),
      ["sampler", ...comparisonColumns(figure)],
      points(figure).filter((p) => p.log_ratio === last).map((p) => [text(p.label), ...comparison(figure, p, as)]));
  };

  const interval = (s, as) => fixed(as.scale * (s.mean - s.half_width), as.digits) + " to " + fixed(as.scale * (s.mean + s.half_width), as.digits);
  const allValues = (figure) => {
    const as = shownAs(figure.quantity);
    return details("All values", {}, table("All points" + (as.percent ? ", in percent" : ""),
      ["sampler", "log2(m/d)", "m", "seeds", "95 % interval of the mean", ...comparisonColumns(figure), ...(hasPublished(figure.verdicts) ? ["verdict"] : [])],
      points(figure).map((p) => [text(p.label), number(p.log_ratio, ratioText(p.log_ratio)), integer(p.m), integer(p.imka ? p.imka.n : 0),
        p.imka && p.imka.n > 1 ? number(p.imka.half_width, interval(p.imka, as)) : nothing(), ...comparison(figure, p, as), ...(hasPublished(figure.verdicts) ? [verdictCell(p)] : [])])));
  };

  const reasons = (figure) => {
    const labels = new Map();
    for (const p of points(figure)) if (p.reason) labels.set(p.reason, (labels.get(p.reason) ?? new Set()).add(p.label));
    if (labels.size === 0) return null;
    return details("Why there is no verdict", {}, listOf([...labels].sort().map(([reason, curves]) => [make("b", {}, [...curves].sort().join(", ")), ": " + reason + "."])));
  };

  const seedsText = (figure) => {
    const counts = points(figure).filter((p) => p.imka).map((p) => p.imka.n);
    const [least, most] = [Math.min(...counts), Math.max(...counts)];
    return least === most ? plural(most, "seed") : least + " to " + most + " seeds";
  };
  const figureCaption = (figure) => {
    const v = figure.verdicts;
    return (figure.quantity === "accuracy" ? "Test accuracy of the ridge classifier on random features" : "Relative error of the approximate Gram matrix in the Frobenius norm")
      + " for the " + figure.kernel + " kernel on " + figure.dataset + (figure.protocol === "measured" ? " in the protocol of the published runs" : "")
      + ", against log2(m/d): m directions in d dimensions. Points are means over " + seedsText(figure) + "; error bars are one standard deviation over seeds."
      + (hasPublished(v) ? " Hollow marks are the published means with their standard deviation." : "");
  };
  const figureCard = (figure) => card(figure.plot, {
    title: figure.kernel + ", " + quantityName(figure.quantity),
    badge: badge(figure.verdicts),
    caption: figureCaption(figure),
    above: headlineTable(figure),
    below: [allValues(figure), reasons(figure), details("Repeat this figure", { class: "repeat" }, command(figure.command))],
  });

  // Attention

  const short = (v) => String(Number(v.toPrecision(3)));
  const attentionRow = (label, p) => [text(label), number(p.x, String(p.x)), number(p.median, short(p.median)), integer(p.n), number(p.low, short(p.low) + " to " + short(p.high)), number(p.mean, short(p.mean))];
  const attentionTable = (figure, caption, keep) => table(caption, ["curve", figure.plot.x, "median", "seeds", "95 % interval of the median", "mean"],
    figure.curves.flatMap((c) => c.points.filter((p, i) => keep(i, c.points.length)).map((p) => attentionRow(c.label, p))));
  const attentionCard = (figure) => card(figure.plot, {
    title: figure.title,
    caption: figure.caption,
    above: [figure.notes.map(note), attentionTable(figure, "First and last points", (i, n) => i === 0 || i === n - 1)],
    below: [details("All values", {}, attentionTable(figure, "All points", () => true)), details("Repeat this figure", { class: "repeat" }, command(figure.command))],
  });
  const heatMaps = (list) => list.map((one) => make("figure", { class: "card maps" }, make("h4", {}, one.title),
    make("div", { class: "maprow" }, one.maps.map((m) => make("div", {}, make("b", {}, m.name), make("img", { src: "data:image/png;base64," + m.png, alt: "Attention matrix, " + m.name })))),
    make("figcaption", {}, "Attention matrices: a row per query, a column per key, bright where the weight is large. Each is scaled from its smallest value to the level that about 3 % of its values exceed (4 % in FP32).")));
  const attention = (section) => [make("div", { class: "grid" }, section.attention.map(attentionCard)), heatMaps(section.heat_maps ?? [])];

  // Tables of accuracies by task

  // Our value, with the published value below it in small type.
  const pair = (ours, published) => ({
    body: [ours ? ours.shown : "–", published ? make("small", {}, published.shown) : null], sort: ours?.value ?? published?.value, number: true, pair: true,
  });
  const share = (s) => s && { value: s.mean, shown: meanText(s.mean, s.std, PERCENT) };
  const percent = (value, after = "") => (value === undefined ? undefined : { value, shown: fixed(100 * value, 2) + after });
  const inPoints = (value) => (value === undefined ? undefined : { value, shown: signed(100 * value, 2) });
  const averageCell = (row) => {
    const all = percent(row.published_average);
    const same = row.average && row.average.tasks.length < row.cells.length ? percent(row.average.published, " of these") : undefined;
    return pair(percent(row.average?.mean, row.average ? " (" + plural(row.average.tasks.length, "task") + ")" : ""),
      same ? { value: same.value, shown: same.shown + (all ? ", " + all.shown + " of all" : "") } : all ?? percent(row.average?.published));
  };
  const accuraciesByTask = (one) => {
    const averages = one.tasks.length > 1 && one.rows.some((row) => row.average || row.published_average !== undefined);
    return table("Test accuracy in percent, mean ± standard deviation over seeds" + (one.source ? "; below it in small type the published value" : "") + (averages ? ". The averages are those of the tasks that have runs" : ""),
      ["model", ...one.tasks, ...(averages ? ["average"] : []), ...(one.baseline ? ["average minus " + one.baseline] : [])],
      one.rows.map((row) => [text(row.model), ...row.cells.map((cell) => pair(share(cell.imka), share(cell.published))), ...(averages ? [averageCell(row)] : []),
        ...(one.baseline ? [pair(inPoints(row.average?.minus_baseline), inPoints(row.average?.published_minus_baseline))] : [])]));
  };
  const loss = (d) => d && { value: d.mean, shown: signed(100 * d.mean, 2) + plusMinus(d.standard_error === null ? null : 100 * d.standard_error, 2) };
  const lossesByTask = (one) => {
    const rows = one.rows.filter((row) => row.cells.some((cell) => cell.minus_digital));
    return rows.length ? table("What the chip changes: accuracy on the chip minus that of the digital run with the same model and seed, in points ± standard error over seeds" + (one.source ? "; below it the published difference" : ""),
      ["model", ...one.tasks], rows.map((row) => [text(row.model), ...row.cells.map((cell) => pair(loss(cell.minus_digital), inPoints(cell.published_minus_digital)))])) : null;
  };
  const errorsByTask = (one) => details("Seeds and standard errors", {}, table("Standard errors of the accuracies in points: of the mean over seeds, and from the choice of examples (binomial)",
    ["model", "task", "seeds", "examples", "accuracy, %", "error, seeds", "error, examples"],
    one.rows.flatMap((row) => row.cells.filter((cell) => cell.imka).map((cell) => [text(row.model), text(cell.task), integer(cell.imka.n), integer(cell.imka.examples), number(cell.imka.mean, fixed(100 * cell.imka.mean, 2)),
      cell.imka.standard_error === null ? nothing() : number(cell.imka.standard_error, fixed(100 * cell.imka.standard_error, 2)), number(cell.imka.standard_error_examples, fixed(100 * cell.imka.standard_error_examples, 2))]))));
  const taskTable = (one) => [accuraciesByTask(one), lossesByTask(one), errorsByTask(one), one.source ? note("Published values: " + one.source + ".") : null, listOf(one.notes),
    one.missing.length ? [boldNote("note", "Missing runs.", ""), listOf(one.missing)] : null];

  // Settings next to published ones

  const settingCell = (c) => ({
    body: [c.differs ? make("span", { class: "v miss", title: c.reason }, c.imka) : c.imka === "-" ? "–" : c.imka, c.published === "-" ? null : make("small", {}, c.published)], number: true, pair: true,
  });
  const settingTable = (one) => {
    const differences = one.rows.flatMap((row) => row.cells.map((c, i) => ({ row: row.name, task: one.tasks[i], ...c })).filter((c) => c.differs));
    return [table("Our value, with the published value below in small type. Differences are marked", ["setting", ...one.tasks], one.rows.map((row) => [text(row.name), ...row.cells.map(settingCell)])),
      differences.length ? table("Differences and their reasons", ["setting", "task", "imka", "published", "reason"],
        differences.map((d) => [text(d.row), text(d.task), text(d.imka), text(d.published), text(d.reason)])) : null,
      note("Published values: " + one.source + "."), one.notes.length ? listOf(one.notes) : null];
  };

  // A thumbnail of the curves without axes.
  const thumbnail = (plot) => {
    const ours = plot.series.filter((s) => !s.published);
    const place = (name, size, margin) => {
      const all = ours.flatMap((s) => s.points.map((p) => p[name]));
      const [low, high] = [Math.min(...all), Math.max(...all)];
      return (v) => margin + (high > low ? (v - low) / (high - low) : 0.5) * (size - 2 * margin);
    };
    const x = place("x", 160, 7);
    const y = place("y", 84, 7);
    const at = (p) => [x(p.x).toFixed(1), (84 - y(p.y)).toFixed(1)];
    return svg("svg", { viewBox: "0 0 160 84", "aria-hidden": "true", focusable: "false" }, ours.map((s) => svg("g", { class: "s-" + s.style },
      svg("polyline", { points: s.points.map((p) => at(p).join(",")).join(" "), "stroke-dasharray": s.dashed ? "4 3" : undefined }),
      s.points.map((p) => svg("circle", { cx: at(p)[0], cy: at(p)[1], r: 1.8 })))));
  };
  const overview = (section) => make("div", { class: "overview" }, section.figures.map((figure) => {
    const name = figure.kernel + ", " + quantityName(figure.quantity);
    return make("a", { class: "thumb" + (figure.verdicts.deviates > 0 ? " bad" : ""), href: "#" + figure.id, "aria-label": figure.dataset + ", " + name + ". " + figure.plot.alt },
      make("b", {}, figure.dataset), make("span", {}, name), thumbnail(figure.plot));
  }));

  // Summary and warnings

  const deviationTable = () => {
    const list = [...report.deviating].sort((a, b) => Math.abs(inErrors(b)) - Math.abs(inErrors(a)) || 0);
    if (list.length === 0) return null;
    const rows = list.map((d) => {
      const as = shownAs(d.quantity);
      const runs = ratio(d.difference, d.std);
      return [{ body: [make("a", { href: "#" + d.figure }, d.dataset)], sort: d.dataset }, text(d.kernel), text(d.label), number(d.log_ratio, ratioText(d.log_ratio)),
        text(d.quantity === "accuracy" ? "accuracy, %" : "Gram error"), number(d.mean, meanText(d.mean, d.std, as)), number(d.published, meanText(d.published, d.published_std, as)),
        number(d.difference, signed(as.scale * d.difference, as.digits)), number(inErrors(d), signed(inErrors(d), 1)), number(runs, signed(runs, 1)), text(d.experiment)];
    });
    return [table("Deviating means: mean ± standard deviation over seeds; the difference Δ in combined standard errors (se) and in standard deviations of our single runs (std)",
      ["data set", "kernel", "sampler", "log2(m/d)", "quantity", "imka", "published", "Δ", "Δ / se", "Δ / std", "experiment"], rows),
    list.some((d) => d.random_split) && report.notes.random_split ? note(report.notes.random_split) : null];
  };

  const absent = () => (report.absent.length ? details("Published figures without any record: " + report.absent.length, {},
    listOf(report.absent.map((a) => a.experiment + ": " + a.dataset + ", " + a.kernel + " (" + a.values + " values)"))) : null);

  const summary = () => {
    const v = report.verdicts;
    const all = v.reproduced + v.deviates;
    const runs = make("p", {}, "These runs get no individual verdicts; see their figures and tables.");
    if (report.experiments.length > 0 && report.experiments.every((e) => e.figures.length === 0)) return make("section", { id: "summary" }, make("h2", {}, "Summary"), runs);
    const reading = boldNote("note", "Reading the figures.", "Points are means over seeds; error bars are one standard deviation over seeds, the spread of single runs and not the uncertainty of the mean (tables give its 95 % interval). Violet circles are rff, blue squares orf, green triangles sorf; solid lines FP32, dashed lines a chip"
      + (hasPublished(v) ? "; hollow marks published means" : "") + ". Click the names under a figure to show or hide its curves.");
    if (!hasPublished(v) && report.absent.length === 0) return make("section", { id: "summary" }, make("h2", {}, "Summary"), make("p", {}, "There are no published values for these settings, so nothing is judged."), reading);
    return make("section", { id: "summary" }, make("h2", {}, "Summary"),
      make("div", { class: "tiles" },
        tile("good", grouped(v.reproduced), "reproduced", "means within " + report.allowed_standard_errors + " standard errors"),
        tile("bad", grouped(v.deviates), "deviate", "means beyond them"),
        tile("miss", grouped(v.missing), "missing", "published, not in the records"),
        tile("mute", grouped(v.other_protocol), "not judged", "run in another protocol; shown for comparison")),
      boldNote("rule", "The rule.", "A mean is reproduced if it lies within " + report.allowed_standard_errors + " combined standard errors of the published mean. A standard error is the standard deviation over seeds divided by √n; ours and the published one are combined as √(a² + b²)."
        + (all > 0 ? " By chance alone, about " + fixed(report.expected_by_chance, 1) + " of " + grouped(all) + " means would lie beyond." : "")),
      deviationTable(), absent(),
      reading);
  };

  const flag = (f) => {
    const most = 50;
    const items = f.details.slice(0, most);
    if (f.details.length > most) items.push("and " + grouped(f.details.length - most) + " more");
    return details(f.title, { class: "flag", "data-flag": f.name, open: f.details.length <= 5 }, listOf(items));
  };
  const warnings = () => make("section", { id: "flags" }, make("h2", {}, "Warnings"), report.flags.length ? report.flags.map(flag)
    : make("p", {}, "None: every line was a record of this schema, no run failed, and no figure mixes programs, instruction sets or data."));

  // An emulated chip against the measured one

  const aimTile = (aim) => {
    const share = aim.quantity === "accuracy";
    return tile(aim.met ? "good" : "bad", share ? fixed(100 * aim.value, 1) + " %" : fixed(aim.value, 3), aim.quantity,
      (share ? "target: at least " + fixed(100 * aim.aim, 0) + " % of cells" : "target: at most " + fixed(aim.aim, 2) + "; expected from seeds alone: " + fixed(aim.expected_noise, 3)) + "; " + (aim.met ? "met" : "not met"));
  };
  const fidelityRow = (row) => [text(row.dataset), text(row.kernel), integer(row.cells), number(row.rms, fixed(row.rms, 3)), number(row.expected_noise, fixed(row.expected_noise, 3)),
    number(row.excess, fixed(row.excess, 3)), number(row.mean, signed(row.mean, 3)), number(row.accuracy_cells ? row.accuracy_agrees / row.accuracy_cells : 0, row.accuracy_agrees + " of " + row.accuracy_cells)];
  const fidelityCell = (c) => {
    const cells = [text(c.dataset), text(c.kernel), text(c.sampler), number(c.log_ratio, ratioText(c.log_ratio)), integer(c.m), number(c.gram_error, meanText(c.gram_error, c.gram_error_se, PLAIN)),
      number(c.gram_error_measured, meanText(c.gram_error_measured, c.gram_error_measured_se, PLAIN)), number(c.residual, signed(c.residual, 3) + " ± " + fixed(c.residual_error, 3))];
    if (c.accuracy === undefined) return [...cells, nothing(), nothing(), nothing()];
    const difference = c.accuracy - c.accuracy_measured;
    const agrees = make("span", { class: "v " + (c.accuracy_agrees ? "good" : "bad") }, (c.accuracy_agrees ? "✓ " : "✗ ") + signed(100 * difference, 2));
    return [...cells, number(c.accuracy, meanText(c.accuracy, c.accuracy_se, PERCENT)), number(c.accuracy_measured, meanText(c.accuracy_measured, c.accuracy_measured_se, PERCENT)), { body: [agrees], sort: difference, number: true }];
  };
  const fidelityPart = (f, alone) => [alone ? null : make("h4", {}, f.chip), make("div", { class: "tiles" }, f.aims.map(aimTile)),
    table("By data set and kernel: RMS of ln(emulated mean / measured mean) of the Gram error; the RMS that an exact emulation would show for these numbers of seeds; the excess over it; the mean; cells whose accuracy agrees within 2 combined standard errors or 0.5 points",
      ["data set", "kernel", "cells", "RMS", "expected from seeds", "excess", "mean", "accuracy agrees"], f.rows.map(fidelityRow)),
    details("All " + f.cells.length + " cells", {}, table("All cells: means ± standard errors; accuracies in percent, their differences in points",
      ["data set", "kernel", "sampler", "log2(m/d)", "m", "Gram error, emulated", "measured", "ln ratio", "accuracy, emulated", "measured", "Δ"], f.cells.map(fidelityCell)))];
  const fidelity = (section) => [...section.fidelity.map((f) => fidelityPart(f, section.fidelity.length === 1)),
    plainCards(section.fidelity_plots, "Points are means over seeds; error bars are standard errors of the means. On the dotted line the emulation agrees with the measurement.")];

  // What the paper says

  const levelHeads = (rows) => rows[0].levels.flatMap((level) => ["imka, " + level.size, "published, " + level.size, "Δ"]);
  const levelCells = (row, show) => row.levels.flatMap(({ imka, published, verdict }) => [imka ? number(imka.mean, show(imka)) : nothing(), published ? number(published.mean, show(published)) : nothing(),
    imka && published ? judged(100 * (imka.mean - published.mean), 2, verdict) : nothing()]);
  const pointsText = (mean, error) => signed(100 * mean, 2) + plusMinus(error === null ? null : 100 * error, 2);
  const accuracyTable = (rows) => table("Accuracy in percent, mean over samplers ± standard deviation over seeds averaged over samplers", ["data set", "kernel", "backend", ...levelHeads(rows)],
    rows.map((row) => [text(row.dataset), text(row.kernel), text(row.backend === "fp32" ? "FP32" : row.backend), ...levelCells(row, (l) => meanText(l.mean, l.std, PERCENT))]));
  const differenceTable = (rows) => table("What the chip changes: accuracy on the chip minus accuracy in FP32, in percentage points ± standard error; Δ is ours minus the published difference",
    ["data set", "kernel", ...levelHeads(rows)], rows.map((row) => [text(row.dataset), text(row.kernel), ...levelCells(row, (l) => pointsText(l.mean, l.standard_error))]));
  const meanCells = (m) => (m ? [number(m.mean, pointsText(m.mean, m.standard_error)), number(m.mean_absolute, fixed(100 * m.mean_absolute, 3)),
    number(m.lowest, signed(100 * m.lowest, 2) + " (" + m.lowest_dataset + ")")] : [nothing(), nothing(), nothing()]);
  const meansTable = (means) => table("The same averaged over data sets, in percentage points: mean difference ± standard error, mean absolute difference, lowest difference",
    ["kernel", "size", "data sets", "imka, mean", "absolute", "lowest", "shared data sets", "imka, mean", "absolute", "lowest", "published, mean", "absolute", "lowest"],
    means.map((s) => [text(s.kernel), text(s.size), integer(s.imka ? s.imka.datasets : 0), ...meanCells(s.imka), integer(s.published ? s.published.datasets : 0), ...meanCells(s.imka_shared), ...meanCells(s.published)]));
  const holding = (h) => {
    if (h.cases === 0) return nothing();
    const [kind, word] = h.holds === h.cases ? ["good", "holds"] : h.holds === 0 ? ["bad", "does not hold"] : ["miss", "in part"];
    return { body: [make("span", { class: "v " + kind }, word), " " + h.holds + " of " + h.cases], sort: h.holds / h.cases };
  };
  const statementTable = (list) => make("div", { class: "statements" }, table("Statements of the text and of the extended results, checked on these records and, for comparison, on the published values. Comparisons allow two standard errors",
    ["statement", "imka", "numbers", "published", "numbers"], list.map((s) => [text(s.statement), holding(s.imka), text(s.imka.numbers), holding(s.published), text(s.published.numbers)])));
  const paper = (section) => {
    const chip = section.accuracy_differences.length > 0;
    return [section.accuracy.length ? [make("p", {}, report.notes.averages),
      plainCards(section.accuracy_plots, "Mean over samplers; error bars are the standard deviation over seeds, averaged over samplers. Squares are FP32, diamonds the chip, hollow marks the published values."),
      accuracyTable(section.accuracy)] : null,
    chip ? [differenceTable(section.accuracy_differences), meansTable(section.chip_minus_fp32), note(report.notes.chip_minus_fp32)] : null,
    plainCards(section.normalised_plots, report.notes.normalised + (chip ? " FP32 and chip share the largest error. Solid lines are FP32, dashed lines the chip;" : " The largest error is that of FP32;") + " hollow marks are the same averages of the published values."),
    section.statements.length ? statementTable(section.statements) : null];
  };

  // Sections and contents

  const part = (id, title, ...children) => [make("h3", { id }, title), ...children];
  const sectionParts = (section, id) => {
    const parts = section.figures.length ? [{ id: id + "--overview", title: "At a glance", body: () => overview(section) }] : [];
    if (section.fidelity.length) parts.push({ id: id + "--fidelity", title: "Emulated against measured chip", link: "Emulated against measured", body: () => fidelity(section) });
    if (section.accuracy.length || section.statements.length || section.normalised_plots.length) parts.push({ id: id + "--paper", title: "What the paper says", body: () => paper(section) });
    for (const one of section.tables ?? []) parts.push({ id: unique(id + "--" + slug(one.title)), title: one.title, body: () => taskTable(one) });
    for (const one of section.plots ?? []) parts.push({ id: unique(id + "--" + slug(one.title)), title: one.title, body: () => plainCards(one.plots, one.caption) });
    for (const one of section.settings ?? []) parts.push({ id: unique(id + "--settings"), title: one.title, body: () => settingTable(one) });
    if (section.attention) parts.push({ id: id + "--attention", title: "Attention", body: () => attention(section) });
    for (const dataset of new Set(section.figures.map((f) => f.dataset)))
      parts.push({ id: unique(id + "--" + slug(dataset)), title: dataset, body: () => make("div", { class: "grid" }, section.figures.filter((f) => f.dataset === dataset).map(figureCard)) });
    return parts;
  };
  const link = (id, title, ...children) => make("li", {}, make("a", { href: "#" + id }, title), ...children);

  const section = (one, index, contents) => {
    const id = "e" + (index + 1) + "-" + slug(one.name);
    const parts = sectionParts(one, id);
    contents.append(link(id, one.name, make("ul", {}, parts.map((p) => link(p.id, p.link ?? p.title)))));
    return make("section", { id }, make("h2", {}, one.title),
      one.what ? [make("p", { class: "lead" }, one.what + "."), command("imka reproduce " + one.name)] : null,
      one.note ? note(one.note) : null,
      one.verdicts.other_protocol > 0 ? note(report.notes.other_protocol) : null,
      parts.map((p) => part(p.id, p.title, p.body())));
  };

  const tally = (list) => list.map((t) => (t.value || "unknown") + " (" + grouped(t.runs) + " runs)").join("; ");
  const provenance = () => {
    const p = report.provenance;
    const rows = [["Program", tally(p.program)], ["Build", tally(p.build)], ["Instruction set", tally(p.instruction_set)], ["Time of all runs", fixed(p.wall_seconds / 60, 1) + " minutes"],
      ["Largest memory", fixed(p.peak_memory_mb, 0) + " MB"], ["Last run finished", p.finished]];
    const save = make("button", { type: "button", id: "csv" }, "Save all points as CSV");
    save.addEventListener("click", () => saveAs("points.csv", URL.createObjectURL(new Blob([csv()], { type: "text/csv" }))));
    return make("section", { id: "provenance" }, make("h2", {}, "Where this comes from"), make("dl", {}, rows.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
      p.data.length ? table("Data sets: sha256 of the parsed tables", ["data set", "sha256", "runs"], p.data.map((d) => [text(d.dataset), { body: [make("code", {}, d.sha256)], sort: d.sha256 }, number(d.runs, grouped(d.runs))])) : null,
      make("p", {}, save));
  };

  const build = () => {
    document.title = report.title;
    document.querySelector("h1").textContent = report.title;
    const contents = document.querySelector("nav ul");
    const sections = () => report.experiments.map((one, i) => section(one, i, contents));
    // Learning curves and tables of settings have no runs.
    if (report.records === 0 && report.flags.length === 0 && report.experiments.length > 0) { document.querySelector("main").append(...sections()); return; }
    document.querySelector("header .lead").textContent = grouped(report.records) + " runs of " + report.provenance.experiments.join(", ") + (report.records ? ", the last finished " + report.provenance.finished : "");
    contents.append(link("summary", "Summary"), link("flags", "Warnings (" + report.flags.length + ")"));
    document.querySelector("main").append(summary(), warnings(), ...sections(), provenance());
    contents.append(link("provenance", "Where this comes from"));
  };

  // Charts

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
          if (p.e > 0 || p.below > 0) {
            // A logarithmic axis ends at its smallest value.
            const low = y.getPixelForValue(Math.max(p.y - (p.below ?? p.e), y.min));
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
  // Reference line: the diagonal or zero.
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
  // A saved picture needs a background.
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
        // Curves are shifted slightly so that their error bars do not overlap.
        data: s.points.map((p) => ({ x: p.x + s.shift, y: p.y, e: p.e, below: p.below, xe: p.xe, n: p.n, r: p.x, name: p.name })),
        showLine: s.line && !s.published,
        borderWidth: s.published ? 1.4 : 2,
        borderDash: s.dashed ? [6, 4] : [],
        pointStyle: MARKS[s.style] || "circle",
        pointRadius: s.published ? 7 : s.marks ? (s.points.length > 30 ? 2 : 4) : 0,
        pointHoverRadius: s.published ? 8 : 6,
        pointBorderWidth: s.published ? 1.4 : 1,
        order: s.published ? 1 : 0,
        ...look(s),
      };
    });
  };

  // Margins for the error bars.
  const span = (plot) => {
    let low = Infinity;
    let high = -Infinity;
    if (plot.log) {
      for (const s of plot.series) for (const p of s.points) { low = Math.min(low, p.x, p.y); high = Math.max(high, p.x + (p.xe || 0), p.y + p.e); }
      return { low: low / 1.3, high: high * 1.15 };
    }
    if (plot.log_y) {
      for (const s of plot.series) for (const p of s.points) { low = Math.min(low, p.y - (p.below ?? 0)); high = Math.max(high, p.y + p.e); }
      return { low: low / 1.2, high: high * 1.2 };
    }
    for (const s of plot.series) for (const p of s.points) { low = Math.min(low, p.y >= 0 ? Math.max(0, p.y - p.e) : p.y - p.e); high = Math.max(high, p.y + p.e); if (plot.most > 0) high = Math.min(high, plot.most); }
    const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
    // No margin below 0 for a quantity that cannot be negative.
    return { low: low >= 0 ? Math.max(0, low - room) : low - room, high: plot.most > 0 ? Math.min(plot.most, high + room) : high + room };
  };

  // Positions and labels of the ticks on x.
  const marks = (plot, xs) => plot.ticks.length ? plot.ticks : [...new Set(xs)].sort((p, q) => p - q).map((value) => ({ value }));
  // A short logarithmic axis has too few powers of ten for ticks.
  const logarithmic = (low, high, axis) => {
    const round = low > 0 ? roundNumbers(low, high) : [];
    const own = round.length > 1 && round.length < 10 ? { afterBuildTicks: (a) => { a.ticks = round.map((t) => ({ ...t })); }, ticks: { ...axis.ticks, callback: short } } : {};
    return { type: "logarithmic", min: low, max: high, ...axis, ...own };
  };
  // Both axes of a logarithmic plot have the same range, so that y = x is the diagonal.
  const scales = (plot, axis) => {
    const { low, high } = span(plot);
    if (plot.log) {
      const both = (title) => ({ type: "logarithmic", min: low, max: high, ...axis(title), ticks: { ...axis(title).ticks, maxRotation: 0 } });
      return { x: both(plot.x), y: both(plot.y) };
    }
    const xs = plot.series.flatMap((s) => s.points.map((p) => p.x));
    const [least, most] = [Math.min(...xs), Math.max(...xs)];
    const room = Math.max(plot.ticks.length ? 0.6 : 0.3, 0.03 * (most - least));
    const y = plot.log_y ? logarithmic(low, high, axis(plot.y)) : { type: "linear", suggestedMin: low, suggestedMax: high, ...axis(plot.y) };
    if (plot.log_x) return { x: { type: "logarithmic", min: least / 1.2, max: most * 1.2, ...axis(plot.x), afterBuildTicks: (a) => { a.ticks = marks(plot, xs).map((t) => ({ ...t })); }, ticks: { ...axis(plot.x).ticks, callback: (value, i, ticks) => ticks[i].label ?? String(value) } }, y };
    return {
      x: { type: "linear", min: least - room, max: most + room, ...axis(plot.x), afterBuildTicks: (a) => { a.ticks = marks(plot, xs).map((t) => ({ ...t })); }, afterTickToLabelConversion: (a) => { if (plot.ticks.length) a.ticks.forEach((t, i) => { t.label = plot.ticks[i].label; }); } },
      y,
    };
  };

  const titleText = (plot, p) => p.name || plot.x + " = " + p.r;
  const valueText = (plot, p) => p.below !== undefined ? short(p.y) + " (" + short(p.y - p.below) + " to " + short(p.y + p.e) + ", n = " + p.n + ")" : p.y.toFixed(plot.digits) + (p.n > 1 ? " ± " + p.e.toFixed(plot.digits) : "") + (p.n > 0 ? " (n = " + p.n + ")" : "");

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
    circle: "M17 7a4 4 0 1 1-8 0a4 4 0 1 1 8 0z", rect: "M9.5 3.5h7v7h-7z", triangle: "M13 2.5 17.5 11h-9z", rectRot: "M13 2.5 17.5 7 13 11.5 8.5 7z",
    star: "M13 2v10M8 7h10M9.5 3.5l7 7M16.5 3.5l-7 7", cross: "M13 2v10M8 7h10",
  };
  const key = (s) => svg("svg", { class: "s-" + s.style, viewBox: "0 0 26 14", stroke: "currentColor", "stroke-width": 1.6, fill: s.published ? "none" : "currentColor", "aria-hidden": "true" },
    s.published || !s.line ? null : svg("path", { d: "M0 7h26", "stroke-dasharray": s.dashed ? "5 3" : undefined }), s.marks ? svg("path", { d: SHAPES[MARKS[s.style] || "circle"] }) : null);

  const addLegend = (plot, chart) => {
    const box = document.querySelector(`.legend[data-for="${plot.id}"]`);
    const buttons = plot.series.map(() => document.createElement("button"));
    const show = (i, visible) => {
      chart.setDatasetVisibility(i, visible);
      buttons[i].setAttribute("aria-pressed", String(visible));
    };
    plot.series.forEach((s, i) => {
      const button = buttons[i];
      fill(button, { type: "button", "aria-pressed": "true" }, [key(s), s.label]);
      button.addEventListener("click", () => {
        show(i, !chart.isDatasetVisible(i));
        chart.update();
      });
      box.append(button);
    });
    addGroups(plot, chart, box, show);
  };

  // With FP32 and a chip there are many curves: one switch per kind.
  const KINDS = { FP32: (s) => !s.dashed, chip: (s) => s.dashed, published: (s) => s.published };
  const addGroups = (plot, chart, box, show) => {
    if (!plot.series.some((s) => s.dashed) || plot.series.every((s) => s.dashed)) return;
    const row = make("div", { class: "groups" }, "Show or hide all:");
    for (const [name, is] of Object.entries(KINDS)) {
      const members = plot.series.map((s, i) => i).filter((i) => is(plot.series[i]));
      if (members.length === 0) continue;
      const button = make("button", { type: "button" }, name);
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

  const saveAs = (name, href) => {
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

  build();
  plots.forEach(draw);
  if (matchMedia("(max-width: 62rem)").matches) document.querySelector("nav details").open = false;
  themeSwitch(recolour);
})();
