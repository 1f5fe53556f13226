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
  const narrow = () => box.clientWidth < 600;
  function axes() {
    const common = { stroke: theme.quiet, grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line }, labelSize: 20, labelFont: '12px system-ui, sans-serif', font: '12px system-ui, sans-serif', labelGap: 0 };
    const incrs = [];
    for (let p = 0; p < 60; p++) incrs.push(2 ** p);
    return [
      { ...common, size: 34, label: run.trace ? 'event of the recording' : 'event: an allocation or a free, in their order', splits: ticks, values: (_, v) => v.map(n => (Number.isInteger(n) && n >= run.first ? count(n - run.first) : '')) },
      { ...common, label: run.trace ? 'asked for and live' : 'live', size: narrow() ? 62 : 76, incrs, values: (_, v) => v.map(n => size(n, n < 1 << 30 || n % (1 << 30) === 0 ? 0 : 1)) },
    ];
  }

  // highest is what the picture must have room for: what memory there is, unless the run takes little of it.
  function highest(most) {
    if (run.failure) most = Math.max(most, run.total[run.events] + run.failure.bytes);
    if (run.capacity && (run.failure || run.capacity.bytes < 2.5 * most)) most = Math.max(most, run.capacity.bytes);
    return Math.max(1, most) * 1.04;
  }

  const band = 38; // pixels above the picture, for steps and phases
  let lines = []; // over the picture
  function build() {
    const view = plot ? { min: plot.scales.x.min, max: plot.scales.x.max } : null;
    const same = plot && plot.run === run;
    if (plot) plot.destroy();
    const n = run.failure ? run.events + 2 : run.events + 1;
    const x = new Float64Array(n);
    for (let i = 0; i < n; i++) x[i] = Math.min(i, run.last);
    x[n - 1] = run.last;
    // The lines are drawn here, a step a pixel: a million steps a line are too many.
    const paths = () => null;
    const wide = v => (v.length === n ? v : Float64Array.from({ length: n }, (_, i) => v[Math.min(i, v.length - 1)]));
    const series = [{}, { paths, points: { show: false } }];
    const values = [x, wide(run.total)];
    lines = [{ name: run.trace ? 'asked for' : 'live', values: run.total, colour: theme.text, width: 1, dash: [] }];
    if (run.level) {
      series.push({ paths, points: { show: false } });
      values.push(wide(run.level));
      lines.push({ name: 'reserved', values: run.level, colour: theme.accent, width: 1.5, dash: [2, 3] });
    }
    for (const other of data.runs) {
      if (other === run) continue;
      const along = stretched(run, other);
      series.push({ paths, points: { show: false } });
      values.push(along);
      lines.push({ name: other.name, values: along, colour: theme.accent, width: 2, dash: [8, 4] });
    }
    plot = new uPlot({
      width: Math.max(200, box.clientWidth), height: box.clientHeight, padding: [band, 8, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false, setScale: false }, points: { show: false } },
      scales: { x: { time: false, range: (_, min, max) => [min ?? 0, max ?? 1] }, y: { range: (_, _min, max) => [0, highest(max)] } },
      axes: axes(),
      series,
      hooks: {
        drawAxes: [u => {
          const b = u.bbox;
          paint(u.scales.x.min, u.scales.x.max, Math.round(b.width), Math.round(b.height), u.scales.y.max);
          u.ctx.drawImage(picture.canvas, Math.round(b.left), Math.round(b.top));
        }],
        draw: [u => lines.forEach(l => drawLine(u, l)), drawPhases, drawLimits, drawMoments],
        setCursor: [hover],
      },
    }, values, box);
    plot.run = run;
    if (same && view) plot.setScale('x', view);
    move(plot.over);
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

  // inside draws with the settings of the picture's marks; clipped to the picture unless they stand around it.
  function inside(u, clipped, draw) {
    const { ctx, bbox } = u;
    const r = devicePixelRatio;
    ctx.save();
    if (clipped) {
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
    }
    ctx.lineWidth = r;
    ctx.textAlign = 'left';
    ctx.textBaseline = 'alphabetic';
    ctx.font = 12 * r + 'px system-ui, sans-serif';
    draw(ctx, bbox, r);
    ctx.restore();
  }
  function upright(ctx, bbox, x) {
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }

  // stepsOf are the steps, each with where it begins and ends.
  function stepsOf(r) {
    const out = [];
    r.phases.forEach((p, k) => {
      const end = phaseEnd(r, k);
      const before = out[out.length - 1];
      if (before && before.step === p.step) before.end = end;
      else out.push({ step: p.step, begin: p.begin, end });
    });
    return out;
  }

  const short = { forward: 'fwd', backward: 'bwd', optimizer: 'optim', finish: 'end' };
  // drawPhases names steps and phases above the picture, where there is room for their names, and draws where they begin.
  function drawPhases(u) {
    inside(u, false, (ctx, bbox, r) => {
      const right = bbox.left + bbox.width;
      const at = e => Math.max(bbox.left, Math.min(right, u.valToPos(e, 'x', true)));
      const named = (text, a, b, y) => {
        const room = b - a - 6 * r;
        if (room <= 0) return;
        const shown = [text, short[text] || text.replace('step ', '')].find(w => ctx.measureText(w).width <= room);
        if (!shown) return;
        ctx.fillText(shown, a + (b - a - ctx.measureText(shown).width) / 2, y);
      };
      const rule = (x, top) => {
        if (x <= bbox.left || x >= right) return;
        ctx.beginPath();
        ctx.moveTo(x, top);
        ctx.lineTo(x, bbox.top);
        ctx.stroke();
      };
      ctx.strokeStyle = theme.line;
      ctx.fillStyle = theme.text;
      for (const s of stepsOf(run)) {
        rule(at(s.begin), bbox.top - band * r + 4 * r);
        if (s.step > 0) named('step ' + s.step, at(s.begin), at(s.end), bbox.top - 22 * r);
      }
      ctx.fillStyle = theme.quiet;
      run.phases.forEach((p, k) => {
        rule(at(p.begin), bbox.top - 18 * r);
        named(p.name, at(p.begin), at(phaseEnd(run, k)), bbox.top - 6 * r);
      });
    });
    inside(u, true, (ctx, bbox, r) => {
      ctx.strokeStyle = theme.quiet;
      ctx.setLineDash([2 * r, 4 * r]);
      for (const s of stepsOf(run)) upright(ctx, bbox, u.valToPos(s.begin, 'x', true));
    });
  }

  // drawLimits draws what memory there is, and what could not be had of it.
  function drawLimits(u) {
    inside(u, true, (ctx, bbox, r) => {
      if (run.capacity && run.capacity.bytes <= u.scales.y.max) {
        const y = u.valToPos(run.capacity.bytes, 'y', true);
        ctx.strokeStyle = ctx.fillStyle = theme.alarm;
        ctx.lineWidth = 1.5 * r;
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
        const long = run.capacity.name + ': ' + size(run.capacity.bytes);
        const text = ctx.measureText(long).width < bbox.width * 0.8 ? long : size(run.capacity.bytes);
        flag(ctx, text, bbox.left + 6 * r, y < bbox.top + 22 * r ? y + 3 * r : y - 20 * r, r, false);
      }
      if (!run.failure) return;
      const x = u.valToPos(run.events, 'x', true);
      const end = u.valToPos(run.last, 'x', true);
      const bottom = u.valToPos(run.total[run.events], 'y', true);
      const top = u.valToPos(run.total[run.events] + run.failure.bytes, 'y', true);
      ctx.strokeStyle = theme.alarm;
      ctx.lineWidth = 1.5 * r;
      ctx.strokeRect(x, top, end - x, bottom - top);
      ctx.beginPath();
      ctx.rect(x, top, end - x, bottom - top);
      ctx.clip();
      for (let k = x - (bottom - top); k < end; k += 6 * r) {
        ctx.beginPath();
        ctx.moveTo(k, bottom);
        ctx.lineTo(k + (bottom - top), top);
        ctx.stroke();
      }
    });
    inside(u, true, (ctx, bbox, r) => {
      const failures = (run.trace ? run.trace.marks.map(m => m.event) : []).concat(run.failure ? [run.events] : []);
      for (const e of failures) {
        const x = u.valToPos(e, 'x', true);
        ctx.strokeStyle = theme.alarm;
        ctx.lineWidth = 1.5 * r;
        upright(ctx, bbox, x);
        const text = run.failure ? 'out of memory: ' + size(run.failure.bytes) + ' asked for' : 'out of memory';
        const wide = ctx.measureText(text).width + 8 * r;
        const before = run.failure || x + wide > bbox.left + bbox.width;
        flag(ctx, text, before ? Math.max(x - wide, bbox.left) : x, bbox.top + bbox.height * 0.4, r, true);
      }
    });
  }
  // flag writes a word of alarm: white on red where it must be seen.
  function flag(ctx, text, x, y, r, filled) {
    const wide = ctx.measureText(text).width + 8 * r;
    ctx.fillStyle = filled ? theme.alarm : theme.back;
    ctx.fillRect(x, y, wide, 17 * r);
    ctx.fillStyle = filled ? theme.back : theme.alarm;
    ctx.fillText(text, x + 4 * r, y + 13 * r);
  }

  // drawMoments marks the peak and the event held.
  function drawMoments(u) {
    inside(u, true, (ctx, bbox, r) => {
      ctx.strokeStyle = theme.accent;
      upright(ctx, bbox, u.valToPos(held, 'x', true));
      if (run.events === 0 || run.failure) return;
      const x = u.valToPos(run.peakAt, 'x', true);
      const y = u.valToPos(run.total[run.peakAt], 'y', true);
      if (x < bbox.left || x > bbox.left + bbox.width) return;
      const text = 'peak ' + size(run.total[run.peakAt]);
      const wide = ctx.measureText(text).width + 8 * r;
      ctx.fillStyle = theme.back;
      const left = x + wide + 6 * r > bbox.left + bbox.width ? x - wide - 4 * r : x + 4 * r;
      const top = Math.max(bbox.top + 2 * r, y - 8 * r);
      ctx.fillRect(left, top, wide, 17 * r);
      ctx.fillStyle = theme.text;
      ctx.fillText(text, left + 4 * r, top + 13 * r);
      ctx.beginPath();
      ctx.arc(x, y, 3.5 * r, 0, 2 * Math.PI);
      ctx.fill();
    });
  }

  function describe(i) {
    const end = run.end[i] < 0 ? 'to the end' : 'to ' + eventName(run, run.end[i]) + ' (' + phaseOf(run, run.end[i]) + ')';
    const begin = run.start[i] < run.first ? eventName(run, run.start[i]) : eventName(run, run.start[i]) + ' (' + phaseOf(run, run.start[i]) + ')';
    return [
      layerName(run, run.layer[i]),
      ...(run.about && run.about.length > 0 && run.about[i] >= 0 ? run.texts[run.about[i]] : []),
      size(run.bytes[i]) + (run.trace ? ' asked for, ' + size(run.trace.block[i]) + ' taken' : '') + ', ' + categoryName(run.category[i]),
      'from ' + begin + ' ' + end,
    ];
  }
  function moment(e) {
    const words = [eventName(run, e), phaseOf(run, e), size(run.total[e]) + (run.trace ? ' asked for and live' : ' live')];
    if (run.level) words.push(size(run.level[e]) + ' reserved');
    return words.filter(w => w !== '').join(', ');
  }

  let under = -1; // the allocation below the pointer
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
    under = i;
    tip.replaceChildren();
    if (run.failure && plot.posToVal(left, 'x') > run.events) {
      tip.append(element('div', run.failure.text));
      return place(u, left, top);
    }
    const lines = i >= 0 ? describe(i) : [];
    for (const l of [...lines, moment(idx)]) tip.append(element('div', l));
    if (i >= 0) tip.append(...stackLines(i, 24));
    place(u, left, top);
  }
  function place(u, left, top) {
    tip.hidden = false;
    const x = u.over.offsetLeft + left;
    tip.style.left = Math.max(0, Math.min(x + 14, box.clientWidth - tip.offsetWidth - 4)) + 'px';
    tip.style.top = Math.min(u.over.offsetTop + top + 14, box.clientHeight - tip.offsetHeight) + 'px';
  }

  const say = text => { $('status').textContent = text; };

