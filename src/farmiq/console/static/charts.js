// Every chart of the console. A page says where, and a route of the console says what:
//
//   <figure class="chart" data-chart="/telemetry/data?device=…" data-refresh-seconds="5" data-zoom>   (chart_parts.html makes it)
//
//   {"title", "x": "time" | "day", "since", "until",                       seconds since 1970, the ends of the time axis
//    "lines": [{"label", "unit", "at": [], "values": [], "low": [] | null, "high": [] | null, "is_points": bool}],
//    "spread": [what low is, what high is],
//    "bands": [{"kind": "lost" | "missing" | "late", "label", "since", "until"}],
//    "summary", "notes": []}
//
// A null among the values is a gap in the line. What a chart shows can also be read: a sentence, a table, and with the arrow keys
// point by point. Lines differ in their dashes and bands in their hatching, so nothing is told by colour alone.
"use strict";

(() => {
  const LINES = 8;
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [14, 4], [4, 2], [1, 5], [12, 2, 2, 2]];
  const ROWS_MAX = 500;
  const BANDS = {
    lost: { colour: "--chart-lost", step: [6, -6] },
    missing: { colour: "--chart-missing", step: [6, 6] },
    late: { colour: "--chart-late", step: null },
  };
  const DAY = 86400;

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colourOf = (index) => css(`--chart-${(index % LINES) + 1}`);
  const two = (number) => String(number).padStart(2, "0");
  const number = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(6))));
  const quantity = (value, unit) => (unit ? `${number(value)} ${unit}` : number(value));

  const dateText = (date) => `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
  const clockText = (date, hasSeconds, hasTenths) => {
    const seconds = hasSeconds ? `:${two(date.getUTCSeconds())}` : "";
    const tenths = hasTenths ? `.${Math.floor(date.getUTCMilliseconds() / 100)}` : "";
    return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}${seconds}${tenths}`;
  };
  const timeText = (seconds, x) => {
    const date = new Date(seconds * 1000);
    return x === "day" ? dateText(date) : `${dateText(date)} ${clockText(date, true)}`;
  };

  const tickTexts = (ticks, step) => {
    let shown = "";
    return ticks.map((seconds) => {
      const date = new Date(seconds * 1000);
      if (step >= 28 * DAY) return dateText(date).slice(0, 7);
      const day = dateText(date).slice(5);
      if (step >= DAY) return day;
      const isNew = day !== shown;
      shown = day;
      const clock = clockText(date, step < 60, step < 1);
      return isNew ? `${clock}\n${day}` : clock;
    });
  };

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  // The columns that uPlot wants: one time axis, and for each line its values and, where it has them, both ends of its spread.
  const columnsOf = (data) =>
    uPlot.join(data.lines.map((line) => (line.low ? [line.at, line.values, line.high, line.low] : [line.at, line.values])));

  const hatched = (context, band) => {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const brush = tile.getContext("2d");
    brush.strokeStyle = brush.fillStyle = css(BANDS[band].colour);
    brush.lineWidth = 1.2;
    const step = BANDS[band].step;
    if (step) {
      const up = step[1] < 0;
      for (const shift of [-6, 0, 6]) {
        brush.beginPath();
        brush.moveTo(shift, up ? 6 : 0);
        brush.lineTo(shift + 6, up ? 0 : 6);
        brush.stroke();
      }
    } else {
      brush.fillRect(2, 2, 1.6, 1.6);
    }
    return context.createPattern(tile, "repeat");
  };

  const drawBands = (plot, bands) => {
    const { ctx: context, bbox } = plot;
    context.save();
    for (const band of bands) {
      const from = Math.max(plot.valToPos(band.since, "x", true), bbox.left);
      const to = Math.min(plot.valToPos(band.until, "x", true), bbox.left + bbox.width);
      const width = Math.max(to - from, 3 * devicePixelRatio);
      if (to < bbox.left || from > bbox.left + bbox.width) continue;
      context.globalAlpha = 0.14;
      context.fillStyle = css(BANDS[band.kind].colour);
      context.fillRect(from, bbox.top, width, bbox.height);
      context.globalAlpha = 0.75;
      context.fillStyle = hatched(context, band.kind);
      context.fillRect(from, bbox.top, width, bbox.height);
    }
    context.restore();
  };

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.plotted = figure.querySelector(".plot");
      this.readout = figure.querySelector(".readout");
      this.spoken = figure.querySelector(".spoken");
      this.figures = figure.querySelector("details.figures");
      this.data = null;
      this.plot = null;
      this.index = null;
      this.isAsking = false;
      this.askedAt = 0;
      this.plotted.addEventListener("keydown", (event) => this.step(event));
      this.plotted.addEventListener("blur", () => this.point(null));
      this.figures.addEventListener("toggle", () => this.showFigures());
      new ResizeObserver(() => this.resize()).observe(this.plotted);
    }

    async ask() {
      if (this.isAsking) return;
      this.isAsking = true;
      this.askedAt = Date.now();
      try {
        const answer = await fetch(this.figure.dataset.chart, { headers: { accept: "application/json" } });
        if (answer.status === 401) return void location.reload();
        if (!answer.ok) throw new Error(`the console answered ${answer.status}`);
        this.show(await answer.json());
      } catch (error) {
        this.note(`Not up to date: ${error.message}.`);
      } finally {
        this.isAsking = false;
      }
    }

    show(data) {
      const shape = JSON.stringify([data.x, data.lines.map((line) => [line.label, line.unit, Boolean(line.low), line.is_points])]);
      this.data = data;
      this.columns = data.lines.length ? columnsOf(data) : [[]];
      this.figure.dataset.points = String(this.columns[0].length);
      if (!data.lines.length) this.forget();
      else if (this.plot && shape === this.shape) this.plot.setData(this.columns);
      else this.draw();
      this.shape = shape;
      this.plotted.setAttribute("aria-label", `${data.title}. ${data.summary}`);
      this.figure.querySelector(".summary").textContent = data.summary;
      this.note(data.notes.join(" "));
      this.showLegend();
      this.showFigures();
      if (this.index !== null) this.point(Math.min(this.index, this.columns[0].length - 1));
    }

    note(text) {
      const notes = this.figure.querySelector(".notes");
      notes.textContent = text;
      notes.hidden = !text;
    }

    forget() {
      if (this.plot) this.plot.destroy();
      this.plot = null;
    }

    draw() {
      this.forget();
      this.plot = new uPlot(this.options(), this.columns, this.plotted);
    }

    options() {
      const units = [...new Set(this.data.lines.map((line) => line.unit))];
      const ink = css("--ink");
      const grid = { stroke: css("--line"), width: 1 };
      const series = [{}];
      const bands = [];
      this.data.lines.forEach((line, index) => {
        const stroke = colourOf(index);
        const scale = `y${units.indexOf(line.unit)}`;
        series.push({
          label: line.label, scale, stroke, width: 1.8, dash: DASHES[index % LINES],
          points: { show: line.is_points || line.at.length <= 60, size: line.is_points ? 9 : 6, fill: stroke },
          ...(line.is_points ? { paths: () => null } : {}),
        });
        if (line.low) {
          bands.push({ series: [series.length, series.length + 1], fill: `${stroke}30` });
          series.push(...["high", "low"].map((end) => ({ label: end, scale, stroke: `${stroke}55`, width: 1, points: { show: false } })));
        }
      });
      const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui", labelFont: "12px system-ui" };
      return {
        ...this.size(), series, bands,
        legend: { show: false },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        scales: { x: { time: true, range: (plot, low, high) => [this.data.since ?? low, this.data.until ?? high] } },
        axes: [
          { ...axis, space: (plot, at, low, high) => (high - low < 60 ? 100 : 64), size: 44, values: (plot, ticks, at, space, step) => tickTexts(ticks, step) },
          ...units.slice(0, 2).map((unit, index) => ({
            ...axis, scale: `y${index}`, side: index ? 1 : 3, size: 56, label: unit || undefined, labelSize: 18,
            grid: index ? { show: false } : grid,
          })),
        ],
        cursor: { drag: { x: "zoom" in this.figure.dataset, y: false, setScale: false }, points: { size: 7 } },
        hooks: {
          drawClear: [(plot) => drawBands(plot, this.data.bands)],
          setCursor: [(plot) => this.read(plot.cursor.idx)],
          setSelect: [(plot) => this.zoom(plot)],
        },
      };
    }

    size() {
      return { width: Math.max(this.plotted.clientWidth, 200), height: innerWidth < 640 ? 220 : 300 };
    }

    resize() {
      if (this.plot && this.size().width !== this.plot.width) this.plot.setSize(this.size());
    }

    // A stretch that is marked with the mouse becomes the page's time range, with an address of its own.
    zoom(plot) {
      if (!("zoom" in this.figure.dataset) || plot.select.width < 8) return;
      const ends = [plot.select.left, plot.select.left + plot.select.width].map((left) => plot.posToVal(left, "x"));
      const address = new URL(location.href);
      address.searchParams.delete("range");
      address.searchParams.set("since", new Date(ends[0] * 1000).toISOString());
      address.searchParams.set("until", new Date(ends[1] * 1000).toISOString());
      location.assign(address);
    }

    sentenceAt(index) {
      const parts = [];
      let column = 1;
      for (const line of this.data.lines) {
        const value = this.columns[column][index];
        const spread = line.low && value != null
          ? ` (${number(this.columns[column + 2][index])} to ${number(this.columns[column + 1][index])})` : "";
        if (value !== null && value !== undefined) parts.push(`${line.label} ${quantity(value, line.unit)}${spread}`);
        column += line.low ? 3 : 1;
      }
      return `${timeText(this.columns[0][index], this.data.x)} UTC: ${parts.join(", ") || "nothing measured"}`;
    }

    read(index) {
      this.readout.textContent = index === null || index === undefined || !this.data ? "" : this.sentenceAt(index);
    }

    point(index) {
      this.index = index;
      if (!this.plot) return;
      if (index === null) {
        this.plot.setCursor({ left: -10, top: -10 });
        return;
      }
      this.plot.setCursor({ left: this.plot.valToPos(this.columns[0][index], "x"), top: this.plot.over.clientHeight / 2 });
      this.readout.textContent = this.sentenceAt(index);
    }

    step(event) {
      const last = this.columns ? this.columns[0].length - 1 : -1;
      if (last < 0) return;
      const now = this.index ?? (event.key === "ArrowRight" ? -1 : last + 1);
      const next = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 20, PageDown: now + 20, Home: 0, End: last }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      this.point(Math.max(0, Math.min(last, next)));
      this.spoken.textContent = this.readout.textContent;
    }

    showLegend() {
      const items = this.data.lines.map((line, index) => {
        const item = element("li");
        const sample = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        sample.setAttribute("width", "30");
        sample.setAttribute("height", "10");
        sample.setAttribute("aria-hidden", "true");
        const shape = document.createElementNS("http://www.w3.org/2000/svg", line.is_points ? "circle" : "line");
        const where = line.is_points ? { cx: 15, cy: 5, r: 4, fill: colourOf(index) } : { x1: 0, x2: 30, y1: 5, y2: 5 };
        const dashes = line.is_points ? "" : DASHES[index % LINES].join(" ");
        const looks = { ...where, stroke: colourOf(index), "stroke-width": 2, "stroke-dasharray": dashes };
        for (const [name, value] of Object.entries(looks)) shape.setAttribute(name, value);
        sample.append(shape);
        item.append(sample, ` ${line.label}${line.unit ? ` (${line.unit})` : ""}${line.low ? `, with ${this.data.spread.join(" to ")}` : ""}`);
        return item;
      });
      for (const band of new Map(this.data.bands.map((each) => [each.kind, each])).values()) {
        const item = element("li");
        item.append(element("span", "", `band ${band.kind}`), ` ${band.label}`);
        items.push(item);
      }
      this.figure.querySelector(".legend").replaceChildren(...items);
    }

    showFigures() {
      if (!this.data || !this.figures.open) return;
      const rows = [];
      for (const line of this.data.lines) {
        line.at.forEach((at, index) => {
          if (line.values[index] !== null) rows.push([at, line, line.values[index], line.low?.[index], line.high?.[index]]);
        });
      }
      rows.sort((one, other) => other[0] - one[0]);
      const hasSpread = this.data.lines.some((line) => line.low);
      const head = element("tr");
      for (const title of [this.data.x === "day" ? "Day" : "Time (UTC)", "What", "Value", ...(hasSpread ? this.data.spread : []), "Unit"]) {
        const cell = element("th", title, title === "Value" || this.data.spread.includes(title) ? "number" : "");
        cell.scope = "col";
        head.append(cell);
      }
      const body = rows.slice(0, ROWS_MAX).map(([at, line, value, low, high]) => {
        const row = element("tr");
        const spread = hasSpread ? [element("td", number(low), "number"), element("td", number(high), "number")] : [];
        row.append(element("td", timeText(at, this.data.x), "nowrap"), element("td", line.label), element("td", number(value), "number"),
          ...spread, element("td", line.unit));
        return row;
      });
      const table = this.figures.querySelector("table");
      const caption = rows.length > ROWS_MAX ? `The newest ${ROWS_MAX} of ${rows.length}; the CSV has all.` : `${rows.length} figures, the newest first.`;
      table.querySelector("caption").textContent = caption;
      table.querySelector("thead").replaceChildren(head);
      table.querySelector("tbody").replaceChildren(...body);
    }
  }

  const charts = [...document.querySelectorAll("figure[data-chart]")].map((figure) => new Chart(figure));
  for (const chart of charts) chart.ask();
  document.body.addEventListener("farmiq:pulse", () => {
    for (const chart of charts) {
      const seconds = Number(chart.figure.dataset.refreshSeconds || 0);
      if (seconds && Date.now() - chart.askedAt >= seconds * 1000) chart.ask();
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const chart of charts) {
      if (!chart.plot) continue;
      chart.draw();
      chart.showLegend();
    }
  });
})();
