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

