"use strict";
/* Draws the charts, sorts and filters the tables. Everything else on the page works without it. */

const root = document.documentElement;
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];
const find = (selector, within = document) => within.querySelector(selector);

/* Theme: the system's, until the reader chooses. */

const systemDark = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
// Some browsers allow no storage to a page that is opened from a file; then it is chosen anew each time.
try { chosen = localStorage.getItem("adalin-theme"); } catch { /* none */ }

function chooseTheme(name) {
  chosen = name;
  try { localStorage.setItem("adalin-theme", name); } catch { /* none */ }
  setTheme(name);
}

function setTheme(name) {
  root.dataset.theme = name;
  const button = find("#theme");
  if (button) button.setAttribute("aria-pressed", String(name === "dark"));
  redrawAll();
}

const theme = () => chosen ?? (systemDark.matches ? "dark" : "light");
const colour = name => getComputedStyle(root).getPropertyValue(name).trim();

/** A method's colour; lighter on a dark ground, as its line in the legend is. */
function lineColour(hex, opacity = 1) {
  const share = parseFloat(colour("--lighten")) / 100;
  const parts = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${parts.map(part => Math.round(part + (255 - part) * share)).join(",")},${opacity})`;
}

/* Charts: drawn when they come near the screen, as a page may have dozens. */

const charts = new Map(); // element -> () => {data, layout}
const drawn = new Set();
let paperWidth = null; // of charts, in pixels, while the page is printed
const narrow = () => innerWidth < 704;
const byTouch = matchMedia("(pointer: coarse)").matches;
const CONFIG = {
  displaylogo: false, displayModeBar: byTouch ? false : "hover", responsive: true, scrollZoom: false, plotlyServerURL: "", showSendToCloud: false, showEditInChartStudio: false,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
};

function draw(element) {
  if (!window.Plotly) {
    element.innerHTML = '<p class="missing">Charts need the file plotly.min.js beside this page.</p>';
    return;
  }
  const { data, layout } = charts.get(element)();
  drawn.add(element);
  Plotly.react(element, data, { ...frame(), ...layout }, CONFIG);
}

function redrawAll() {
  drawn.forEach(draw);
}

const nearScreen = new IntersectionObserver(entries => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    nearScreen.unobserve(entry.target);
    if (charts.has(entry.target)) draw(entry.target);
  }
}, { rootMargin: "600px" });

function addChart(element, content) {
  charts.set(element, content);
  nearScreen.observe(element);
}

function axis(title) {
  return {
    title: { text: title, standoff: 8 }, gridcolor: colour("--grid"), linecolor: colour("--line"), tickcolor: colour("--line"),
    zeroline: false, ticks: "outside", ticklen: 4, automargin: true,
  };
}

/** What all charts share, in the colours of the theme. */
function frame() {
  return {
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("--ink") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, uirevision: "kept",
    margin: { l: 56, r: 16, t: 28, b: 44 }, ...(paperWidth ? { width: paperWidth } : { autosize: true }),
    // A finger scrolls the page; it should not be caught by a chart.
    dragmode: byTouch ? false : "zoom",
    hoverlabel: { bgcolor: colour("--paper"), bordercolor: colour("--line"), font: { color: colour("--ink"), size: 12 } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--ink") },
  };
}

/* Curves */

const words = name => name.replaceAll("_", " ");
const isNumber = value => value !== null && value !== undefined;

/** Mean and sample standard deviation over those seeds that have a number, task by task. */
function overSeeds(lines) {
  return (lines[0] ?? []).map((_, task) => {
    const values = lines.map(line => line[task]).filter(isNumber);
    if (!values.length) return { mean: null, deviation: null };
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    return { mean, deviation: values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0 };
  });
}

/** Where a task is on the axis: counted from 1, or in steps where people count in those. */
const position = (benchmark, task) => task * (benchmark.stepsPerTask ?? 1);

function curveTraces(benchmark, setting, metric, showSeeds) {
  const lines = setting.curves[metric] ?? [];
  const points = overSeeds(lines);
  const tasks = points.map((_, index) => position(benchmark, index + 1));
  const traces = [];
  const known = points.map((point, index) => ({ ...point, task: tasks[index] })).filter(point => isNumber(point.mean));
  const meta = kind => ({ setting: setting.label, kind });
  if (known.some(point => point.deviation > 0) && !showSeeds) {
    const back = [...known].reverse();
    traces.push({
      meta: meta("band"), type: "scatter", mode: "lines", line: { width: 0 }, fill: "toself",
      fillcolor: lineColour(setting.colour, 0.16), hoverinfo: "skip",
      x: [...known, ...back].map(point => point.task),
      y: [...known.map(point => point.mean + point.deviation), ...back.map(point => point.mean - point.deviation)],
    });
  }
  if (showSeeds) {
    lines.forEach((line, index) => traces.push({
      meta: meta("seed"), type: "scatter", mode: "lines", x: tasks, y: line, hoverinfo: "skip",
      line: { color: lineColour(setting.colour, 0.45), width: 1 }, name: `${setting.label}, seed ${setting.seeds[index]}`,
    }));
  }
  traces.push({
    meta: meta("mean"), type: "scatter", mode: known.length > 1 ? "lines+markers" : "markers", name: setting.label,
    x: tasks, y: points.map(point => point.mean), customdata: points.map(point => point.deviation),
    line: { color: lineColour(setting.colour), width: 2, dash: setting.dash },
    marker: { symbol: setting.symbol, size: 7, maxdisplayed: 12, color: lineColour(setting.colour) },
    hovertemplate: "%{y:.4~g} ± %{customdata:.2~g}",
  });
  if (setting.diverged.length) {
    // The mark of a seed that diverged is at the height of its last number.
    const ends = setting.diverged.map(end => {
      const line = lines[setting.seeds.indexOf(end.seed)] ?? [];
      return { ...end, value: line.slice(0, end.task - 1).filter(isNumber).at(-1) ?? 0 };
    });
    traces.push({
      meta: meta("diverged"), type: "scatter", mode: "markers", name: `${setting.label}, diverged`,
      x: ends.map(end => position(benchmark, end.task)), y: ends.map(end => end.value),
      text: ends.map(end => `seed ${end.seed} diverged in ${benchmark.task} ${end.task}, step ${end.step}`),
      marker: { symbol: "circle-x-open", size: 14, color: lineColour(setting.colour), line: { width: 2 } },
      hovertemplate: "%{text}", cliponaxis: false,
    });
  }
  return traces;
}

function curves(benchmark, state) {
  const data = benchmark.settings.flatMap((setting, index) =>
    curveTraces(benchmark, setting, state.metric, state.seeds).map(trace => ({ ...trace, visible: state.shown.has(index) })));
  const full = /accuracy$|^dormant$/.test(state.metric) ? { range: [0, 1.02] } : { rangemode: "tozero" };
  const tasks = Math.max(1, ...benchmark.settings.map(setting => setting.curves[state.metric]?.[0].length ?? 0));
  const room = 0.3 + 0.01 * tasks;
  return {
    data,
    layout: {
      xaxis: {
        ...axis(benchmark.stepsPerTask ? "steps in the environment" : "task"),
        range: [1 - room, tasks + room].map(task => position(benchmark, task)),
        ...(tasks < 10 && !benchmark.stepsPerTask ? { dtick: 1 } : {}),  // there are no half tasks
      },
      yaxis: { ...axis(words(state.metric)), ...(state.full ? full : {}) },
      hovermode: narrow() || state.shown.size > 12 ? "closest" : "x unified",
      uirevision: `${state.metric} ${state.full}`,
    },
  };
}

function setUpCurves(section, benchmark) {
  const chart = find(".curves", section);
  const methods = findAll(".method", section);
  const atFirst = methods.flatMap((button, index) => (button.getAttribute("aria-pressed") === "true" ? [index] : []));
  const state = { metric: benchmark.metrics[0], seeds: false, full: true, shown: new Set(atFirst) };
  const update = () => {
    methods.forEach((button, index) => button.setAttribute("aria-pressed", String(state.shown.has(index))));
    find(".about-metric", section).textContent =
      page.metrics[state.metric] ? `The metric ${words(state.metric)}: ${page.metrics[state.metric]}.` : "";
    if (drawn.has(chart)) draw(chart);
  };
  if (!state.metric) {
    chart.innerHTML = '<p class="missing">No task is finished yet.</p>';
    chart.style.height = "auto";
    return;
  }
  addChart(chart, () => curves(benchmark, state));
  find(".metric", section).addEventListener("change", event => { state.metric = event.target.value; update(); });
  for (const name of ["seeds", "full"]) {
    find(`.${name}`, section).addEventListener("click", event => {
      state[name] = !state[name];
      event.currentTarget.setAttribute("aria-pressed", String(state[name]));
      update();
    });
  }
  methods.forEach((button, index) => button.addEventListener("click", () => {
    if (!state.shown.delete(index)) state.shown.add(index);
    update();
  }));
  find(".every", section).addEventListener("click", () => { state.shown = new Set(benchmark.settings.keys()); update(); });
  find(".none", section).addEventListener("click", () => { state.shown.clear(); update(); });
  find(".first", section)?.addEventListener("click", () => { state.shown = new Set(atFirst); update(); });
  addCsv(find(".controls", section), () => curvesCsv(benchmark, state), `${benchmark.anchor}-curves`);
  update();
}

/** The curves that are shown, seed by seed. */
function curvesCsv(benchmark, state) {
  const lines = [["method", "seed", benchmark.task, state.metric]];
  benchmark.settings.forEach((setting, index) => {
    if (!state.shown.has(index)) return;
    (setting.curves[state.metric] ?? []).forEach((line, seed) => line.forEach((value, task) => {
      if (isNumber(value)) lines.push([setting.label, setting.seeds[seed], task + 1, value]);
    }));
  });
  return lines;
}

/* Two methods compared */

/** The mean of some numbers, and half of the 95 % interval around it; null of fewer than two. */
function studentInterval(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  if (values.length < 2) return { mean, half: null };
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
  return { mean, half: page.tQuantiles[values.length - 2] * Math.sqrt(variance / values.length) };
}

function setUpComparison(part) {
  const first = find(".compare-first", part), second = find(".compare-second", part), body = find("tbody", part);
  const rows = new Map(page.benchmarks.flatMap(benchmark => benchmark.settings.map(setting => [setting.row, setting.label])));
  if (rows.size < 2) return;
  part.hidden = false;
  for (const [select, chosen] of [[first, 1], [second, 0]]) {
    [...rows].forEach(([row, label]) => select.add(new Option(label, row)));
    select.selectedIndex = chosen;
    select.addEventListener("change", update);
  }
  function update() {
    const lines = page.benchmarks.flatMap(benchmark => {
      const [one, other] = [first, second].map(select => benchmark.settings.find(setting => setting.row === select.value));
      if (!one || !other) return [];
      const pairs = one.seeds.map((seed, index) => [one.totals[index], other.totals[other.seeds.indexOf(seed)]])
        .filter(pair => pair.every(isNumber));
      if (!pairs.length) return [];
      const [a, b] = [0, 1].map(place => studentInterval(pairs.map(pair => pair[place])).mean);
      const { mean, half } = studentInterval(pairs.map(pair => pair[0] - pair[1]));
      const digits = Math.abs(a) < 10 && Math.abs(b) < 10 ? 3 : 0;
      const text = value => value.toFixed(digits).replace("-", "\u2212");
      const interval = half === null ? "one seed" : `[${text(mean - half)}, ${text(mean + half)}]`;
      const word = half === null || Math.abs(mean) <= half ? "" : mean > 0 ? "gains" : "loses";
      return [{ cells: [`${benchmark.name}: ${words(benchmark.score)}`, pairs.length, text(a), text(b), `${mean > 0 ? "+" : ""}${text(mean)} ${interval}`], word }];
    });
    body.replaceChildren(...lines.map(({ cells, word }) => {
      const row = document.createElement("tr");
      row.className = word;
      cells.forEach((cell, index) => {
        const element = row.appendChild(document.createElement(index ? "td" : "th"));
        if (!index) element.scope = "row";
        element.textContent = cell;
      });
      return row;
    }));
    const names = [first, second].map(select => select.selectedOptions[0].textContent);
    findAll("thead th", part).slice(2, 4).forEach((head, index) => { head.textContent = names[index]; });
  }
  update();
}

/* Heat maps */

const MAPS = {
  // Vermilion to blue over white, and cividis: both are read alike by people who are colour-blind.
  alpha: { colorscale: [[0, "#a63603"], [0.25, "#f0924f"], [0.5, "#f7f7f7"], [0.75, "#5aa2cf"], [1, "#08407e"]] },
  saturation: { colorscale: "Cividis", zmin: 0, zmax: 1 },
};

/** The neurons by their last value in the first of these maps that there is. */
function neuronOrder(maps, layer) {
  const values = maps.alpha[layer] ?? maps.saturation[layer] ?? [];
  const last = line => line.filter(isNumber).at(-1) ?? Infinity;
  return [...values.keys()].sort((a, b) => last(values[a]) - last(values[b]));
}

function heatMap(name, maps, layer, inOrder) {
  const neurons = maps[name][layer].map(line => line.map(value => (isNumber(value) ? value / 1000 : null)));
  const order = neuronOrder(maps, layer);
  // A layer with a single alpha has no order that its saturation could share.
  const rows = inOrder && order.length === neurons.length ? order : [...neurons.keys()];
  const scale = { ...MAPS[name] };
  if (name === "alpha") {
    const sizes = neurons.flat().filter(isNumber).map(Math.abs).sort((a, b) => a - b);
    scale.zmax = sizes[Math.floor(0.99 * (sizes.length - 1))] || 1;
    scale.zmin = -scale.zmax;
  }
  return {
    data: [{
      type: "heatmap", x: maps.tasks, z: rows.map(row => neurons[row]), ...scale, hoverongaps: false,
      customdata: rows.map(row => maps.tasks.map(() => row + 1)),
      hovertemplate: `task %{x}<br>neuron %{customdata}<br>${name} %{z}<extra></extra>`,
      colorbar: { thickness: 10, outlinewidth: 0, len: 0.9, tickfont: { size: 11 } },
    }],
    layout: {
      title: { text: name, font: { size: 14 }, x: 0, xref: "paper", xanchor: "left", y: 0.98, yanchor: "top" },
      xaxis: { ...axis("task"), showgrid: false },
      yaxis: { ...axis(inOrder ? "neuron, in order" : "neuron"), showgrid: false, showticklabels: false, ticks: "" },
      margin: { l: 36, r: 8, t: 32, b: 44 },
    },
  };
}

function setUpMaps(section, benchmark) {
  const withMaps = benchmark.settings.filter(setting => setting.maps);
  if (!withMaps.length) return;
  find(".maps", section).hidden = false;
  const pair = find(".pair", section);
  const choice = find(".map-setting", section), layers = find(".map-layer", section), sort = find(".map-sort", section);
  withMaps.forEach((setting, index) => choice.add(new Option(`${setting.label}, seed ${setting.maps.seed}`, index)));
  // The first with alphas shows the most.
  choice.value = String(Math.max(0, withMaps.findIndex(setting => setting.maps.alpha.length)));
  let shown = [];
  const update = () => {
    const maps = withMaps[Number(choice.value)].maps;
    const count = Math.max(maps.alpha.length, maps.saturation.length);
    const layer = Math.min(Number(layers.value || 0), count - 1);
    layers.replaceChildren(...Array.from({ length: count }, (_, index) => new Option(String(index + 1), index)));
    layers.value = String(layer);
    const inOrder = sort.getAttribute("aria-pressed") === "true";
    shown.forEach(chart => { charts.delete(chart); if (drawn.delete(chart)) Plotly.purge(chart); });
    shown = Object.keys(MAPS).filter(name => maps[name][layer]).map(name => {
      const chart = document.createElement("div");
      chart.className = `chart map ${name}`;
      chart.setAttribute("role", "img");
      chart.setAttribute("aria-label", `${name} of the neurons of layer ${layer + 1} over tasks`);
      charts.set(chart, () => heatMap(name, maps, layer, inOrder));
      return chart;
    });
    pair.replaceChildren(...shown);
    shown.forEach(chart => nearScreen.observe(chart));
  };
  choice.addEventListener("change", update);
  layers.addEventListener("change", update);
  sort.addEventListener("click", () => {
    sort.setAttribute("aria-pressed", String(sort.getAttribute("aria-pressed") !== "true"));
    update();
  });
  update();
}

/* Tables */

/** Numbers before texts, what is missing last, whichever the direction. */
function compare(a, b, direction) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const difference = Number(a) - Number(b);
  return direction * (Number.isNaN(difference) ? a.localeCompare(b) : difference);
}

function setUpSorting(table) {
  const heads = findAll("thead th", table), body = find("tbody", table);
  heads.forEach((head, column) => find("button", head).addEventListener("click", () => {
    const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b), direction)));
  }));
}

function setUpFilter(section) {
  const buttons = findAll(".filters button", section);
  buttons.forEach(button => button.addEventListener("click", () => {
    buttons.forEach(other => other.setAttribute("aria-pressed", String(other === button)));
    const wanted = button.dataset.outcome;
    findAll("tbody tr", section).forEach(row => { row.hidden = wanted !== "" && row.dataset.outcome !== wanted; });
  }));
}

/* CSV of tables and charts */

function addCsv(place, lines, name) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "csv";
  button.textContent = "CSV";
  button.title = `Save as ${name}.csv`;
  button.addEventListener("click", () => {
    // A quote or a line break needs quotes; a text that begins as a formula does would be one in a spreadsheet.
    const cell = value => {
      const text = typeof value === "number" ? String(value) : String(value).replace(/^[=+@]/, "'$&");
      return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const text = lines().map(line => line.map(cell).join(",") + "\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  place.append(button);
}

function setUpTableCsv(table) {
  const scroll = table.closest(".scroll"), part = table.closest("section");
  const line = row => [...row.cells].map(cell => cell.textContent.replace(/\s+/g, " ").trim());
  const place = document.createElement("div");
  place.className = "controls end";
  scroll.after(place);
  addCsv(place, () => [...table.rows].filter(row => !row.hidden).map(line), `${part.id}-${table.classList[0]}`);
}

/* Parts that are folded open where a link leads to. */

function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const details = find(":scope > details", target);
  if (details) details.open = true;
  target.scrollIntoView();
}

function setUpRows(part) {
  const button = find(".all-rows", part);
  if (!button) return;
  const set = all => {
    button.setAttribute("aria-pressed", String(all));
    findAll("tr.more", part).forEach(row => { row.hidden = !all; });
  };
  button.addEventListener("click", () => set(button.getAttribute("aria-pressed") !== "true"));
  set(false);
}

/* Commands to copy */

async function copy(button) {
  const code = find("code", button.parentElement);
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    // Not every browser allows it to a page from a file: the text is selected, so that a key copies it.
    getSelection().selectAllChildren(code);
    button.textContent = "selected";
    return;
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy"; }, 1500);
}

/* Paper is white, and shows what is folded or not yet drawn. */

function setUpPrinting() {
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = findAll("details:not([open])");
    folded.forEach(details => { details.open = true; });
    paperWidth = 680;
    setTheme("light");
    charts.forEach((_, element) => draw(element));
  });
  addEventListener("afterprint", () => {
    folded.forEach(details => { details.open = false; });
    paperWidth = null;
    setTheme(theme());
  });
}

/* At once, so that no light page flashes up before a dark one. */
root.dataset.theme = theme();
const page = JSON.parse(find("#data").textContent);

/* After plotly, whose script is deferred. */
addEventListener("DOMContentLoaded", () => {
  setTheme(theme());
  find("#theme").addEventListener("click", () => chooseTheme(root.dataset.theme === "dark" ? "light" : "dark"));
  systemDark.addEventListener("change", () => setTheme(theme()));
  findAll(".benchmark").forEach(section => {
    const benchmark = page.benchmarks[Number(section.dataset.benchmark)];
    setUpCurves(section, benchmark);
    setUpMaps(section, benchmark);
  });
  findAll(".sortable").forEach(setUpSorting);
  findAll("#claims").forEach(setUpFilter);
  findAll("#overview").forEach(setUpRows);
  findAll(".compare").forEach(setUpComparison);
  findAll("table:not(.claims)").forEach(setUpTableCsv);
  findAll("nav a, .matrix a").forEach(link => link.addEventListener("click", () => setTimeout(unfold)));
  addEventListener("hashchange", unfold);
  unfold();
  findAll(".copy").forEach(button => button.addEventListener("click", () => copy(button)));
  setUpPrinting();
});
