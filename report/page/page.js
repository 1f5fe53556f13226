  const $ = id => document.getElementById(id);
  const data = JSON.parse($('data').textContent);
  const root = document.documentElement;

  // Words

  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  function size(n, digits = 2) {
    let u = 0;
    let v = Math.abs(n);
    while (v >= 1024 && u + 1 < units.length) { v /= 1024; u++; }
    return (n < 0 ? '-' : '') + (u === 0 ? v.toFixed(0) : v.toFixed(digits)) + ' ' + units[u];
  }
  const count = n => n.toLocaleString('en-US');
  // Text only ever reaches the page as text.
  function element(name, text, className) {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  }

  // Runs: what each event does and what is live after it

  const nothing = -2147483648; // what an event does that is no allocation and no free
  function prepare(run) {
    const n = run.events;
    run.first = run.trace ? run.trace.first : 0; // events before the recording
    run.does = new Int32Array(n).fill(nothing); // an allocation i, or ~i where it ends
    run.more = new Map(); // further allocations that an event makes
    run.also = new Map(); // further allocations that end with an event
    for (let i = 0; i < run.start.length; i++) {
      const e = run.end[i];
      if (e < 0) continue;
      if (run.does[e] !== nothing) run.also.set(e, [...(run.also.get(e) || []), i]);
      else run.does[e] = ~i;
    }
    for (let i = 0; i < run.start.length; i++) {
      const e = run.start[i];
      if (run.does[e] >= 0) { run.more.set(e, [...(run.more.get(e) || []), i]); continue; }
      if (run.does[e] !== nothing) run.also.set(e, [...(run.also.get(e) || []), ~run.does[e]]);
      run.does[e] = i;
    }
    run.total = new Float64Array(n + 1);
    run.peakAt = 0;
    let live = 0;
    for (let e = 0; e < n; e++) {
      apply(run, e, i => { live += run.bytes[i]; }, i => { live -= run.bytes[i]; });
      run.total[e] = live;
      if (live > run.total[run.peakAt]) run.peakAt = e;
    }
    run.total[n] = live; // the last event has a width as all have
    run.level = null;
    if (run.levels.length > 0) {
      run.level = new Float64Array(n + 1);
      let k = 0;
      let bytes = 0;
      for (let e = 0; e <= n; e++) {
        while (k < run.levels.length && run.levels[k][0] <= e) bytes = run.levels[k++][1];
        run.level[e] = bytes;
      }
    }
  }
  // apply calls add and drop with the allocations that an event makes and ends.
  function apply(r, e, add, drop) {
    const a = r.does[e];
    if (a === nothing) return;
    if (r.also.size > 0 && r.also.has(e)) r.also.get(e).forEach(drop);
    if (a < 0) drop(~a); else add(a);
    if (r.more.size > 0 && r.more.has(e)) r.more.get(e).forEach(add);
  }
  data.runs.forEach(prepare);
  // Events have the numbers of the recording.
  const eventName = (r, e) => (e < r.first ? 'before the recording' : 'event ' + count(e - r.first));
  const eventCount = r => count(r.events - r.first) + ' events';
  let run = data.runs[0];
  const categoryName = c => (run.kinds || data.categories)[c];
  const layerName = (r, l) => (l < 0 ? 'no layer' : r.layers[l]);
  function phaseOf(r, event) {
    let found = null;
    for (const p of r.phases) {
      if (p.begin > event) break;
      found = p;
    }
    return found === null ? '' : (found.step > 0 ? 'step ' + found.step + ' ' : '') + found.name;
  }
  function liveAt(r, event) {
    const out = [];
    for (let i = 0; i < r.start.length && r.start[i] <= event; i++) {
      if (r.end[i] < 0 || r.end[i] > event) out.push(i);
    }
    return out;
  }

  // The other run, stretched so that the phases that both begin with lie over each
  // other. Of the events that fall between two of this run's, the largest total is taken.
  function stretched(r, other) {
    const out = new Array(r.events + 1).fill(null); // nothing where the other has ended
    let same = 0; // phases that both begin with
    while (same < r.phases.length && same < other.phases.length && r.phases[same].name === other.phases[same].name && r.phases[same].step === other.phases[same].step) same++;
    const anchors = [];
    for (let i = 0; i < same; i++) anchors.push([r.phases[i].begin, other.phases[i].begin]);
    if (same === 0) anchors.push([0, 0]);
    anchors.push([same < r.phases.length && same > 1 ? r.phases[same].begin : r.events, same < other.phases.length && same > 1 ? other.phases[same].begin : other.events]);
    for (let k = 0; k + 1 < anchors.length; k++) {
      const [a, b] = anchors[k];
      const [c, d] = anchors[k + 1];
      for (let e = a; e < c; e++) {
        const from = b + Math.floor((e - a) / (c - a) * (d - b));
        const to = Math.max(from + 1, b + Math.floor((e + 1 - a) / (c - a) * (d - b)));
        let most = from < other.events ? other.total[from] : 0;
        for (let f = from + 1; f < to && f < d; f++) most = Math.max(most, other.total[f]);
        out[e] = most;
      }
    }
    return out;
  }

  // Colours

  let colours = [];
  let theme = {};
  function rgb(name) {
    const probe = element('span');
    probe.style.color = 'var(' + name + ')';
    document.body.append(probe);
    const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
    probe.remove();
    return [r, g, b];
  }
  const pack = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0; // little endian RGBA
  function readColours() {
    const css = getComputedStyle(root);
    for (const k of ['back', 'text', 'quiet', 'line', 'accent', 'alarm']) theme[k] = css.getPropertyValue('--' + k).trim();
    const shade = (c, f) => c.map(v => Math.max(0, Math.min(255, Math.round(v * f))));
    colours = data.categories.map((_, i) => {
      const c = rgb('--c' + i);
      return { css: 'var(--c' + i + ')', shades: [pack(...c), pack(...shade(c, 0.9)), pack(...shade(c, 1.1))], edge: pack(...shade(c, 0.62)) };
    });
    const dim = rgb('--dim');
    theme.dim = [pack(...dim), pack(...shade(dim, 0.95)), pack(...shade(dim, 1.04))];
    theme.dimEdge = pack(...shade(dim, 0.85));
  }

  // Bands: every pixel column shows the moment of its events at which most was
  // live, the allocations on top of each other in the order they were made.

  let wanted = null; // of layers: those that the search found
  let category = -1; // the one to bring out
  const shown = i => (wanted === null || run.layer[i] >= 0 && wanted[run.layer[i]]) && (category < 0 || run.category[i] === category);
  const picture = { canvas: document.createElement('canvas'), ids: new Int32Array(0), w: 0, h: 0, key: '' };
  function paint(x0, x1, w, h, top) {
    const key = [run.name, data.runs.indexOf(run), x0, x1, w, h, top, category, picture.version].join();
    if (picture.key === key) return;
    picture.key = key;
    picture.canvas.width = picture.w = w;
    picture.canvas.height = picture.h = h;
    const image = new ImageData(w, h);
    const pixels = new Uint32Array(image.data.buffer);
    const ids = (picture.ids = new Int32Array(w * h).fill(-1));
    const n = run.start.length;
    const next = new Int32Array(n + 1).fill(-1); // of the list of live allocations; n is its head
    const prev = new Int32Array(n + 1).fill(-1);
    let tail = n;
    const add = i => { next[tail] = i; prev[i] = tail; next[i] = -1; tail = i; };
    const drop = i => {
      const p = prev[i];
      const q = next[i];
      next[p] = q;
      if (q >= 0) prev[q] = p; else tail = p;
    };
    const first = Math.max(0, Math.floor(x0));
    for (let i = 0; i < n && run.start[i] < first; i++) {
      if (run.end[i] < 0 || run.end[i] >= first) add(i);
    }
    let at = first; // the next event to apply
    let drawn = -1;
    for (let c = 0; c < w; c++) {
      const a = Math.max(0, Math.floor(x0 + c * (x1 - x0) / w));
      if (a >= run.events) break;
      const b = Math.min(run.events - 1, Math.max(a, Math.ceil(x0 + (c + 1) * (x1 - x0) / w) - 1));
      let most = a;
      for (let e = a + 1; e <= b; e++) if (run.total[e] > run.total[most]) most = e;
      if (most === drawn || most < at - 1) {
        for (let y = 0; y < h; y++) {
          pixels[y * w + c] = pixels[y * w + c - 1];
          ids[y * w + c] = ids[y * w + c - 1];
        }
        continue;
      }
      for (; at <= most; at++) apply(run, at, add, drop);
      drawn = most;
      let sum = 0;
      let y = 0; // rows filled, from the bottom
      for (let i = next[n]; i >= 0; i = next[i]) {
        sum += run.bytes[i];
        const end = Math.min(h, Math.round(sum / top * h));
        if (end === y) continue;
        const lit = shown(i);
        const colour = lit ? colours[run.category[i]].shades[i % 3] : theme.dim[i % 3];
        const edge = end - y > 3 ? (lit ? colours[run.category[i]].edge : theme.dimEdge) : colour;
        for (let k = y; k < end; k++) {
          const p = (h - 1 - k) * w + c;
          pixels[p] = k === end - 1 ? edge : colour;
          ids[p] = i;
        }
        y = end;
      }
    }
    picture.canvas.getContext('2d').putImageData(image, 0, 0);
  }

  // The plot

  let plot = null;
  let held = 0; // the event that the tables below show
  let pick = -1; // the allocation that the keyboard is on
  const box = $('plot');
  const tip = $('tip');

  // ticks are round numbers of the recording's events.
  function ticks(u, axis, min, max, step) {
    const out = [];
    for (let n = run.first + Math.ceil((min - run.first) / step) * step; n <= max; n += step) out.push(n);
    return out;
  }
  function axes() {
    const common = { stroke: theme.quiet, grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line } };
    const incrs = [];
    for (let p = 0; p < 60; p++) incrs.push(2 ** p);
    return [
      { ...common, label: 'event', labelSize: 20, splits: ticks, values: (_, v) => v.map(n => (Number.isInteger(n) && n >= run.first ? count(n - run.first) : '')) },
      { ...common, size: 90, incrs, values: (_, v) => v.map(n => size(n, n < 1 << 30 ? 0 : 2)) },
    ];
  }

  function build() {
    const view = plot ? { min: plot.scales.x.min, max: plot.scales.x.max } : null;
    const same = plot && plot.run === run;
    if (plot) plot.destroy();
    const x = new Float64Array(run.events + 1);
    for (let i = 0; i < x.length; i++) x[i] = i;
    // The lines are drawn here, a step a pixel: a million steps a line are too many.
    const paths = () => null;
    const series = [{}, { paths, points: { show: false } }];
    const values = [x, run.total];
    const lines = [{ values: run.total, colour: theme.text, width: 1, dash: [] }];
    if (run.level) {
      series.push({ paths, points: { show: false } });
      values.push(run.level);
      lines.push({ values: run.level, colour: theme.accent, width: 1.5, dash: [2, 3] });
    }
    for (const other of data.runs) {
      if (other === run) continue;
      const along = stretched(run, other);
      series.push({ paths, points: { show: false } });
      values.push(along);
      lines.push({ values: along, colour: theme.accent, width: 2, dash: [8, 4] });
    }
    plot = new uPlot({
      width: Math.max(200, box.clientWidth), height: box.clientHeight,
      legend: { show: false },
      cursor: { drag: { x: true, y: false, uni: 10 }, points: { show: false } },
      scales: { x: { time: false, range: (_, min, max) => [min ?? 0, max ?? 1] }, y: { range: (_, _min, max) => [0, Math.max(1, max) * 1.04] } },
      axes: axes(),
      series,
      hooks: {
        drawAxes: [u => {
          const b = u.bbox;
          paint(u.scales.x.min, u.scales.x.max, Math.round(b.width), Math.round(b.height), u.scales.y.max);
          u.ctx.drawImage(picture.canvas, Math.round(b.left), Math.round(b.top));
        }],
        draw: [u => lines.forEach(l => drawLine(u, l)), drawPhases],
        setCursor: [hover],
      },
    }, values, box);
    plot.run = run;
    if (same && view) plot.setScale('x', view);
    plot.over.addEventListener('click', () => { if (plot.cursor.idx !== null) hold(plot.cursor.idx); });
    plot.over.addEventListener('wheel', e => {
      e.preventDefault();
      zoom(e.deltaY < 0 ? 0.8 : 1.25, plot.posToVal(e.offsetX, 'x'));
    }, { passive: false });
    plot.over.addEventListener('mouseleave', () => { tip.hidden = true; });
  }

  // drawLine draws the largest value of each pixel column.
  function drawLine(u, line) {
    const { ctx, bbox } = u;
    const { min, max } = u.scales.x;
    const w = Math.round(bbox.width);
    const last = line.values.length - 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.strokeStyle = line.colour;
    ctx.lineWidth = line.width * devicePixelRatio;
    ctx.setLineDash(line.dash.map(d => d * devicePixelRatio));
    ctx.beginPath();
    let drawn = false;
    for (let c = 0; c < w; c++) {
      const a = Math.max(0, Math.floor(min + c * (max - min) / w));
      if (a >= last && last > 0) break;
      const b = Math.min(last - 1, Math.max(a, Math.ceil(min + (c + 1) * (max - min) / w) - 1));
      let most = line.values[a];
      for (let e = a + 1; e <= b; e++) if (line.values[e] > most) most = line.values[e];
      if (most === null || most === undefined) { drawn = false; continue; }
      const y = u.valToPos(most, 'y', true);
      if (drawn) ctx.lineTo(bbox.left + c, y); else ctx.moveTo(bbox.left + c, y);
      ctx.lineTo(bbox.left + c + 1, y);
      drawn = true;
    }
    ctx.stroke();
    ctx.restore();
  }

  function drawPhases(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.strokeStyle = theme.quiet;
    ctx.fillStyle = theme.text;
    ctx.lineWidth = devicePixelRatio;
    ctx.textAlign = 'left';
    ctx.textBaseline = 'alphabetic';
    ctx.font = 12 * devicePixelRatio + 'px system-ui, sans-serif';
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    let free = -Infinity;
    for (const p of run.phases) {
      const x = u.valToPos(p.begin, 'x', true);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const text = (p.step > 0 ? p.step + ' ' : '') + p.name;
      if (x + 4 >= free && x < bbox.left + bbox.width) {
        ctx.fillText(text, x + 4 * devicePixelRatio, bbox.top + 13 * devicePixelRatio);
        free = x + ctx.measureText(text).width + 10 * devicePixelRatio;
      }
    }
    for (const m of run.trace ? run.trace.marks : []) {
      const x = u.valToPos(m.event, 'x', true);
      ctx.setLineDash([]);
      ctx.strokeStyle = ctx.fillStyle = theme.alarm;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const text = 'out of memory';
      const wide = ctx.measureText(text).width + 8 * devicePixelRatio;
      const left = x + wide > bbox.left + bbox.width ? x - wide : x;
      ctx.fillRect(left, bbox.top + 16 * devicePixelRatio, wide, 17 * devicePixelRatio);
      ctx.fillStyle = theme.back;
      ctx.fillText(text, left + 4 * devicePixelRatio, bbox.top + 29 * devicePixelRatio);
    }
    const x = u.valToPos(held, 'x', true);
    ctx.setLineDash([]);
    ctx.strokeStyle = theme.accent;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  function describe(i) {
    const end = run.end[i] < 0 ? 'to the end' : 'to ' + eventName(run, run.end[i]) + ' (' + phaseOf(run, run.end[i]) + ')';
    const begin = run.start[i] < run.first ? eventName(run, run.start[i]) : eventName(run, run.start[i]) + ' (' + phaseOf(run, run.start[i]) + ')';
    return [
      layerName(run, run.layer[i]),
      size(run.bytes[i]) + (run.trace ? ' asked for, ' + size(run.trace.block[i]) + ' taken' : '') + ', ' + categoryName(run.category[i]),
      'from ' + begin + ' ' + end,
    ];
  }
  function moment(e) {
    const words = [eventName(run, e), phaseOf(run, e), size(run.total[e]) + (run.trace ? ' asked for and live' : ' live')];
    if (run.level) words.push(size(run.level[e]) + ' reserved');
    return words.filter(w => w !== '').join(', ');
  }

  function hover(u) {
    const { left, top } = u.cursor;
    const idx = u.cursor.idx === null || u.cursor.idx === undefined ? null : Math.min(u.cursor.idx, run.events - 1);
    if (left === undefined || left < 0 || top < 0 || idx === null || idx === undefined || run.events === 0) {
      tip.hidden = true;
      return;
    }
    const ratio = picture.w / u.over.clientWidth;
    const column = Math.min(picture.w - 1, Math.floor(left * ratio));
    const row = Math.min(picture.h - 1, Math.floor(top * ratio));
    const i = picture.ids[row * picture.w + column];
    tip.replaceChildren();
    const lines = i >= 0 ? describe(i) : [];
    for (const l of [...lines, moment(idx)]) tip.append(element('div', l));
    if (i >= 0) tip.append(...stackLines(i, 24));
    tip.hidden = false;
    const x = u.over.offsetLeft + left;
    tip.style.left = Math.max(0, Math.min(x + 14, box.clientWidth - tip.offsetWidth - 4)) + 'px';
    tip.style.top = Math.min(u.over.offsetTop + top + 14, box.clientHeight - tip.offsetHeight) + 'px';
  }

  const say = text => { $('status').textContent = text; };

  // Moving

  function setView(min, max) {
    const last = Math.max(1, run.events);
    const width = Math.min(Math.max(max - min, 4), last);
    min = Math.max(0, Math.min(min, last - width));
    plot.setScale('x', { min, max: min + width });
  }
  function zoom(factor, around) {
    const { min, max } = plot.scales.x;
    if (around === undefined) around = held >= min && held <= max ? held : (min + max) / 2;
    setView(around - (around - min) * factor, around + (max - around) * factor);
  }
  function show(e) {
    const { min, max } = plot.scales.x;
    if (e < min || e > max) setView(e - (max - min) / 2, e + (max - min) / 2);
  }
  function hold(e, quiet) {
    held = Math.max(0, Math.min(e, run.events - 1));
    pick = -1;
    show(held);
    plot.redraw(false, false);
    tables();
    traced();
    if (!quiet) say(moment(held));
  }
  function whole() {
    setView(0, run.events);
    say('The whole run: ' + eventCount(run) + '.');
  }

  box.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey || run.events === 0) return;
    const far = Math.max(1, Math.round((plot.scales.x.max - plot.scales.x.min) / 10));
    const step = e.shiftKey ? far : 1;
    switch (e.key) {
      case 'ArrowLeft': hold(held - step); break;
      case 'ArrowRight': hold(held + step); break;
      case 'ArrowUp':
      case 'ArrowDown': {
        const live = liveAt(run, held).sort((a, b) => run.bytes[b] - run.bytes[a]);
        if (live.length === 0) break;
        const k = live.indexOf(pick) + (e.key === 'ArrowDown' ? 1 : -1);
        pick = live[Math.max(0, Math.min(k, live.length - 1))];
        say(describe(pick).join(', '));
        break;
      }
      case '+': case '=': zoom(0.5); break;
      case '-': zoom(2); break;
      case 'p': case 'P': hold(run.peakAt); break;
      case 'Home': hold(0); break;
      case 'End': hold(run.events - 1); break;
      case 'Enter': hold(held); break;
      case 'Escape': whole(); break;
      default: return;
    }
    e.preventDefault();
  });
  $('in').addEventListener('click', () => zoom(0.5));
  $('out').addEventListener('click', () => zoom(2));
  $('all').addEventListener('click', whole);
  $('peak').addEventListener('click', () => hold(run.peakAt));

  // What is live at the event held

  function tables() {
    $('h-moment').textContent = run.events === 0 ? 'Nothing is allocated' : (held === run.peakAt ? 'At the peak: ' : 'At ') + moment(held);
    const sums = new Array(data.categories.length).fill(0);
    const live = run.events === 0 ? [] : liveAt(run, held);
    for (const i of live) sums[run.category[i]] += run.bytes[i];
    const total = sums.reduce((a, b) => a + b, 0);
    const rows = [];
    sums.map((bytes, c) => [bytes, c]).filter(([bytes]) => bytes > 0).sort((a, b) => b[0] - a[0]).forEach(([bytes, c]) => {
      const tr = element('tr');
      tr.append(element('td', categoryName(c)), element('td', size(bytes), 'n'), element('td', (bytes / total * 100).toFixed(1) + ' %', 'n'));
      const bar = element('td');
      bar.setAttribute('aria-hidden', 'true');
      bar.append(swatch(c, Math.max(1, bytes / total * 160)));
      tr.append(bar);
      rows.push(tr);
    });
    $('breakdown').tBodies[0].replaceChildren(...rows);
    live.sort((a, b) => run.bytes[b] - run.bytes[a] || a - b);
    $('largest').tBodies[0].replaceChildren(...live.slice(0, 20).map(i => {
      const tr = element('tr');
      const end = run.end[i] < 0 ? 'the end' : count(run.end[i] - run.first);
      tr.append(element('td', size(run.bytes[i]), 'n'), element('td', categoryName(run.category[i])), element('td', layerName(run, run.layer[i])), element('td', (run.start[i] < run.first ? 'before' : count(run.start[i] - run.first)) + ' to ' + end));
      return tr;
    }));
  }

  function swatch(c, width) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    svg.setAttribute('width', width);
    svg.setAttribute('height', 12);
    const r = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    r.setAttribute('width', width);
    r.setAttribute('height', 12);
    r.style.fill = colours[c].css;
    svg.append(r);
    return svg;
  }

  // Legend, phases, search

  function legend() {
    const used = new Set(run.category);
    $('legend').replaceChildren(...[...used].sort((a, b) => a - b).map(c => {
      const li = element('li');
      const b = element('button');
      b.type = 'button';
      b.append(swatch(c, 12), element('span', categoryName(c).replace('_', ' ')));
      b.setAttribute('aria-pressed', String(category === c));
      b.addEventListener('click', () => {
        category = category === c ? -1 : c;
        legend();
        $('legend').querySelectorAll('button')[[...used].sort((x, y) => x - y).indexOf(c)].focus();
        plot.redraw(false, false);
        say(category < 0 ? 'All categories are shown.' : 'Only ' + categoryName(c) + ' is coloured.');
      });
      li.append(b);
      return li;
    }));
  }
  function phaseButtons() {
    const marks = (run.trace ? run.trace.marks : []).slice(0, 10).map(m => {
      const b = element('button', 'Out of memory at ' + eventName(run, m.event), 'alarm');
      b.type = 'button';
      b.addEventListener('click', () => {
        setView(m.event - 200, m.event + 50);
        hold(m.event);
        say(m.text);
      });
      return b;
    });
    $('phases').replaceChildren(...marks, ...run.phases.slice(0, 60).map((p, k) => {
      const b = element('button', (p.step > 0 ? p.step + ' ' : '') + p.name);
      b.type = 'button';
      b.addEventListener('click', () => {
        const end = k + 1 < run.phases.length ? run.phases[k + 1].begin : run.events;
        setView(p.begin, end);
        let most = p.begin;
        for (let e = p.begin; e < end; e++) if (run.total[e] > run.total[most]) most = e;
        hold(most);
      });
      return b;
    }));
  }
  $('find').addEventListener('input', () => {
    const words = $('find').value.trim().toLowerCase();
    picture.version = words;
    wanted = null;
    if (words !== '') {
      wanted = run.layers.map(l => l.toLowerCase().includes(words));
      let n = 0;
      let bytes = 0;
      for (let i = 0; i < run.layer.length; i++) {
        if (run.layer[i] >= 0 && wanted[run.layer[i]]) { n++; bytes = Math.max(bytes, run.bytes[i]); }
      }
      const found = wanted.filter(Boolean).length;
      say(count(found) + ' of ' + count(run.layers.length) + ' layers match, with ' + count(n) + ' allocations' + (n > 0 ? ', the largest of ' + size(bytes) : '') + '.');
    } else {
      say('');
    }
    for (const t of document.querySelectorAll('table.big')) {
      for (const tr of t.tBodies[0].rows) tr.hidden = words !== '' && !tr.textContent.toLowerCase().includes(words);
    }
    plot.redraw(false, false);
  });

  // Tables that sort

  for (const t of document.querySelectorAll('table.sortable')) {
    [...t.tHead.rows[0].cells].forEach((th, column) => {
      const b = element('button', th.textContent);
      b.type = 'button';
      th.replaceChildren(b);
      b.addEventListener('click', () => {
        // Numbers begin with the largest, words with the first.
        const was = th.getAttribute('aria-sort');
        const up = was === null ? !th.classList.contains('n') : was === 'descending';
        for (const other of t.tHead.rows[0].cells) other.removeAttribute('aria-sort');
        th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
        const sign = up ? 1 : -1;
        const value = tr => tr.cells[column];
        const body = t.tBodies[0];
        const rows = [...body.rows];
        rows.sort((a, c) => {
          const x = value(a);
          const y = value(c);
          const p = x.dataset.n !== undefined ? Number(x.dataset.n) : NaN;
          const q = y.dataset.n !== undefined ? Number(y.dataset.n) : NaN;
          if (!Number.isNaN(p) && !Number.isNaN(q)) return sign * (p - q);
          return sign * x.textContent.localeCompare(y.textContent, 'en', { numeric: true });
        });
        body.append(...rows);
      });
    });
  }

  // Segments

  function segments() {
    const canvas = $('segments');
    if (!canvas) return;
    const list = [...(run.trace ? stateAt(run, held) : run.segments)].sort((a, b) => b.bytes - a.bytes || a.addr - b.addr);
    const row = list.length > 200 ? 4 : 14;
    const width = canvas.parentElement.clientWidth;
    const ratio = devicePixelRatio;
    const height = Math.min(list.length * row, 20000);
    canvas.width = width * ratio;
    canvas.height = Math.max(1, height) * ratio;
    if (run.trace) $('h-segments').textContent = "The allocator's segments at " + eventName(run, held);
    canvas.style.height = height + 'px';
    const ctx = canvas.getContext('2d');
    ctx.scale(ratio, ratio);
    const most = list.length > 0 ? list[0].bytes : 1;
    const css = getComputedStyle(root);
    list.forEach((s, k) => {
      const y = k * row;
      const all = Math.max(1, s.bytes / most * width);
      ctx.fillStyle = css.getPropertyValue('--dim');
      ctx.fillRect(0, y, all, row - 2);
      ctx.fillStyle = css.getPropertyValue(s.kind === 'small' ? '--c8' : s.kind === 'expandable' ? '--c1' : '--c0');
      let at = 0;
      for (const b of s.blocks) {
        const w = b.bytes / s.bytes * all;
        if (b.used) ctx.fillRect(at, y, Math.max(w - (w > 3 ? 1 : 0), 0.5), row - 2);
        at += w;
      }
    });
    canvas.onmousemove = e => {
      const s = list[Math.floor(e.offsetY / row)];
      if (!s) return;
      const byte = e.offsetX / Math.max(1, s.bytes / most * width) * s.bytes;
      let at = 0;
      let text = s.kind + ' segment of ' + size(s.bytes) + (s.stream ? ' of ' + s.stream : '');
      for (const b of s.blocks) {
        if (byte >= at && byte < at + b.bytes) text += ': ' + size(b.bytes) + (b.used ? ' in use' + (b.label ? ', ' + b.label : '') : ' free');
        at += b.bytes;
      }
      $('segment').textContent = text;
    };
  }

