"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { bags, map, heatmaps, marks } = data;
  const byId = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const phone = matchMedia("(max-width: 34rem)");
  const touch = matchMedia("(pointer: coarse)").matches;

  // Plotly reads a little HTML in its texts: names are shown as text, each in its own direction.
  const text = (name) =>
    "\u2068" + String(name).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;") + "\u2069";
  const number = (value) => {
    if (value === null) return "–";
    const size = Math.abs(value);
    const sign = value < 0 ? "−" : "";
    if (size >= 1e7 || (size > 0 && size < 1e-4)) {
      const [mantissa, exponent] = size.toExponential(3).split("e");
      const raised = String(Number(exponent)).replace(/[-0-9]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
      return sign + Number(mantissa) + " × 10" + raised;
    }
    return sign + (size >= 1000 ? Math.round(size).toLocaleString("en") : String(Number(size.toPrecision(4))));
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  // Viridis begins in a colour that cannot be seen on a dark ground.
  const scale = () => (dark.matches
    ? [[0, "#5a63a8"], [0.4, "#2aa198"], [0.75, "#9bd64a"], [1, "#fdf06a"]] : "Viridis");

  // Few points need no WebGL, and where there is none many points are drawn slowly but drawn.
  const webgl = () => Boolean(document.createElement("canvas").getContext("webgl"));
  const points = map.x.length > 1500 && webgl() ? "scattergl" : "scatter";

  // Where a few points lie far off, the view begins with the others.
  function layout() {
    const axis = (i) => ({
      title: { text: text(map.axes[i]), font: { size: 13 } }, automargin: true,
      gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"),
      ...(map.view ? { range: map.view[i] } : {}),
    });
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("text"), family: "system-ui, sans-serif", size: 13 },
      hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("text") } },
      margin: { l: 50, r: 15, t: 30, b: 45 }, hovermode: "closest", showlegend: false,
      dragmode: touch ? false : "pan", uirevision: "map", xaxis: axis(0), yaxis: axis(1),
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("quiet"), activecolor: colour("accent") },
    };
  }
  const settings = {
    responsive: true, displaylogo: false, scrollZoom: false, displayModeBar: touch || phone.matches ? false : "hover",
    modeBarButtons: [["toImage", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };

  // ---- Map -----------------------------------------------------------------------------------
  let selected = null;
  const hoverTexts = map.bag.map((bag, i) =>
    "bag " + text(bags.id[bag]) + "<br>instance " + map.instance[i] + ", score " + number(map.score[i]) +
    (map.detected[i] ? ", detected" : "") + "<br>in a " + (bags.positive[bag] ? "positive" : "negative") + " bag");
  const where = (test) => map.x.map((_, i) => i).filter(test);
  const pick = (rows, column) => rows.map((i) => column[i]);

  function mapTraces() {
    const faint = selected !== null;
    const scored = where((i) => map.score[i] !== null);
    const unscored = where((i) => map.score[i] === null);
    const found = where((i) => map.detected[i]);
    const size = map.x.length > 3000 ? 5 : 7;
    const many = found.length > 100;  // thin rings around the points, which stay visible
    const traces = [{
      type: points, mode: "markers", x: pick(scored, map.x), y: pick(scored, map.y),
      text: pick(scored, hoverTexts), customdata: scored, hoverinfo: "text", opacity: faint ? 0.25 : 0.85,
      marker: {
        size, color: pick(scored, map.score), colorscale: scale(), cmin: map.range[0], cmax: map.range[1],
        colorbar: { title: { text: "score", side: "top" }, thickness: 12, outlinewidth: 0, len: 0.9, exponentformat: "power" },
        showscale: !phone.matches,
      },
    }];
    if (unscored.length) traces.push({
      type: points, mode: "markers", x: pick(unscored, map.x), y: pick(unscored, map.y),
      text: pick(unscored, hoverTexts), customdata: unscored, hoverinfo: "text", opacity: faint ? 0.25 : 0.7,
      marker: { size, color: colour("point") },
    });
    traces.push({
      type: points, mode: "markers", x: pick(found, map.x), y: pick(found, map.y), hoverinfo: "skip",
      opacity: faint ? 0.3 : many ? 0.7 : 1,
      marker: {
        size: many ? size + 1 : size + 6, symbol: "circle-open", color: colour("accent"),
        line: { width: many ? 0.8 : 1.8 },
      },
    });
    if (faint) {
      const own = where((i) => map.bag[i] === selected);
      traces.push({
        type: points, mode: "markers", x: pick(own, map.x), y: pick(own, map.y), text: pick(own, hoverTexts),
        customdata: own, hoverinfo: "text", name: "selected bag",
        marker: {
          size: own.map((i) => (map.detected[i] ? 17 : 11)), color: colour("accent"),
          symbol: own.map((i) => (map.detected[i] ? "star" : "circle")),
          line: { width: 1.5, color: colour("panel") },
        },
      });
    }
    return traces;
  }
  const paintMap = () => Plotly.react("map-figure", mapTraces(), layout(), settings);
  paintMap();
  byId("map-figure").on("plotly_click", (event) => {
    const point = event.points.find((one) => one.customdata !== undefined);
    if (point) select(map.bag[point.customdata]);
  });

  function select(bag) {
    selected = bag;
    byId("bag-select").value = bag === null ? "" : String(bag);
    let status = "";
    if (bag !== null) {
      const own = where((i) => map.bag[i] === bag);
      const scores = pick(own, map.score).filter((value) => value !== null);
      status = "Bag \u2068" + bags.id[bag] + "\u2069: " + (bags.positive[bag] ? "positive" : "negative") + ", " +
        own.length + (own.length < bags.size[bag] ? " of " + bags.size[bag] : "") + " instances on the map, " +
        own.filter((i) => map.detected[i]).length + " detected" +
        (scores.length ? ", scores " + number(Math.min(...scores)) + " to " + number(Math.max(...scores)) : "") + ".";
    }
    byId("bag-status").textContent = status;
    paintMap();
  }
  byId("bag-select").addEventListener("change", (event) =>
    select(event.target.value === "" ? null : Number(event.target.value)));
  byId("clear-bag").addEventListener("click", () => select(null));
  byId("ranking").addEventListener("click", (event) => {
    if (!event.target.classList.contains("on-map")) return;
    select(Number(event.target.dataset.bag));
    byId("map").scrollIntoView();
    byId("bag-select").focus({ preventScroll: true });
  });

  // ---- Ranked instances -----------------------------------------------------------------------
  const FEW = 5, MANY = 50;
  const rowsOf = (button) => [...button.closest("details, section").querySelectorAll("tbody tr")];
  document.querySelectorAll("button.more").forEach((button) => button.addEventListener("click", () => {
    const rows = rowsOf(button);
    const shown = rows.filter((row) => !row.hidden).length;
    const wanted = shown < MANY ? MANY : rows.length;
    rows.forEach((row, i) => { if (i < wanted) row.hidden = false; });
    button.hidden = wanted >= rows.length;
    button.textContent = "Show all " + rows.length + " rows";
  }));
  const blocks = [...document.querySelectorAll("details.bag")].map((block) => ({
    block,
    more: block.querySelector("button.more"),
    name: [".name", ".fields"].map((part) => block.querySelector(part)?.textContent ?? "").join(" ").toLowerCase(),
    rows: [...block.querySelectorAll("tbody tr")].map((row) => ({
      row, detected: row.classList.contains("detected"),
      cells: [...row.cells].map((cell) => cell.textContent.toLowerCase()),
    })),
  }));
  function filter() {
    const wanted = byId("filter").value.trim().toLowerCase();
    const detectedOnly = byId("only-detected").checked;
    const filtered = Boolean(wanted) || detectedOnly;
    let shownBags = 0, shownRows = 0, allRows = 0;
    for (const { block, name, rows, more } of blocks) {
      let fitting = 0;
      for (const { row, detected, cells } of rows) {
        const fits = (!detectedOnly || detected) &&
          (!wanted || name.includes(wanted) || cells.some((cell) => cell.includes(wanted)));
        fitting += fits;
        row.hidden = !fits || fitting > (filtered ? MANY : FEW);
      }
      if (more) more.hidden = filtered;
      block.hidden = fitting === 0;
      shownBags += fitting > 0; shownRows += fitting; allRows += rows.length;
    }
    const rest = byId("more-bags");
    if (rest && filtered) rest.open = true;
    byId("filter-status").textContent =
      shownBags + " of " + blocks.length + " bags, " + shownRows + " of " + allRows + " rows";
  }
  byId("filter").addEventListener("input", filter);
  byId("only-detected").addEventListener("change", filter);
  filter();

  // ---- Marks ----------------------------------------------------------------------------------
  // Kept by the browser for this data set; those that the method learned from come first.
  const given = Object.fromEntries(marks.given.map(([bag, instance, mark]) => [bag + " " + instance, mark]));
  let kept = given;
  try { kept = JSON.parse(localStorage.getItem(marks.key)) ?? given; } catch { /* no storage: for this visit only */ }
  const cells = [...document.querySelectorAll("td.marks")];
  function showMarks() {
    for (const { dataset, children } of cells) {
      const mark = kept[dataset.bag + " " + dataset.instance];
      for (const button of children) button.setAttribute("aria-pressed", String(button.dataset.mark === mark));
    }
    const values = Object.values(kept);
    const right = values.filter((mark) => mark === "yes").length;
    byId("marks-status").textContent = right + " right, " + (values.length - right) + " wrong";
    byId("save-marks").disabled = byId("clear-marks").disabled = values.length === 0;
  }
  function keepMarks(changed) {
    kept = changed;
    try { localStorage.setItem(marks.key, JSON.stringify(kept)); } catch { /* as above */ }
    showMarks();
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("td.marks button");
    if (!button) return;
    const { bag, instance } = button.parentElement.dataset;
    const { [bag + " " + instance]: before, ...others } = kept;
    keepMarks(before === button.dataset.mark ? others : { ...others, [bag + " " + instance]: button.dataset.mark });
  });
  byId("clear-marks").addEventListener("click", () => keepMarks({}));
  byId("save-marks").addEventListener("click", () => {
    const quoted = (name) => '"' + name.replaceAll('"', '""') + '"';
    const lines = Object.entries(kept).map(([place, mark]) => {
      const [bag, instance] = place.split(" ");
      return [quoted(marks.ids[bag]), instance, mark].join(",");
    });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([["bag,instance,positive", ...lines, ""].join("\n")], { type: "text/csv" }));
    link.download = "marks.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
  showMarks();

  // ---- Heat maps ------------------------------------------------------------------------------
  const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const DARK = [[90, 99, 168], [42, 161, 152], [98, 188, 111], [155, 214, 74], [253, 240, 106]];
  function shade(share) {
    const stops = dark.matches ? DARK : VIRIDIS;
    const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return "rgb(" + stops[low].map((part, i) => Math.round(part + (at - low) * (stops[low + 1][i] - part))) + ")";
  }
  function drawHeat(canvas) {
    const one = heatmaps.maps[Number(canvas.dataset.heat)];
    const width = Math.max(...one.x) + one.size, height = Math.max(...one.y) + one.size;
    const room = Math.min(canvas.parentElement.clientWidth, 640);
    if (!room) return;
    const zoom = Math.min(room / width, (phone.matches ? 300 : 220) / height), dense = window.devicePixelRatio || 1;
    canvas.style.width = width * zoom + "px";
    canvas.width = Math.ceil(width * zoom * dense); canvas.height = Math.ceil(height * zoom * dense);
    const ink = canvas.getContext("2d");
    ink.scale(zoom * dense, zoom * dense);
    const [low, high] = heatmaps.range;
    one.score.forEach((value, i) => {
      ink.fillStyle = value === null ? colour("point") : shade((value - low) / (high - low));
      ink.fillRect(one.x[i], one.y[i], one.size, one.size);
    });
    ink.strokeStyle = colour("accent");
    ink.lineWidth = 2 / zoom;
    one.detected.forEach((yes, i) => { if (yes) ink.strokeRect(one.x[i], one.y[i], one.size, one.size); });
    canvas.onmousemove = (event) => {
      const x = event.offsetX / zoom, y = event.offsetY / zoom;
      const i = one.x.findIndex((left, k) => x >= left && x < left + one.size && y >= one.y[k] && y < one.y[k] + one.size);
      canvas.title = i < 0 ? "" : "instance " + one.instance[i] + ", score " + number(one.score[i]);
    };
  }
  const drawAllHeat = () => document.querySelectorAll("canvas[data-heat]").forEach(drawHeat);
  if (heatmaps) {
    document.querySelectorAll("#ranking details").forEach((block) => block.addEventListener("toggle", () =>
      block.querySelectorAll("canvas[data-heat]").forEach(drawHeat)));
    drawAllHeat();
  }

  const again = () => { paintMap(); drawAllHeat(); };
  dark.addEventListener("change", again);
  phone.addEventListener("change", again);
  document.documentElement.dataset.ready = "yes";
})();
