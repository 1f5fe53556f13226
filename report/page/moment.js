  // What is live at the event held

  function tables() {
    $('h-moment').textContent = run.events === 0 ? 'Nothing is allocated' : (held !== run.peakAt ? 'At ' : run.failure ? 'When memory ran out: ' : 'At the peak: ') + moment(held);
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
    $('largest').tBodies[0].replaceChildren(...live.slice(0, 12).map(i => {
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
      b.append(swatch(c, 12), element('span', categoryName(c)));
      b.setAttribute('aria-pressed', String(category === c));
      b.addEventListener('click', () => {
        category = category === c ? -1 : c;
        legend();
        $('legend').querySelectorAll('button')[[...used].sort((x, y) => x - y).indexOf(c)].focus();
        plot.redraw(false, false);
        say(category < 0 ? 'All categories are coloured.' : 'Coloured: ' + categoryName(c) + '.');
      });
      li.append(b);
      return li;
    }), ...lines.map(l => {
      const li = element('li');
      const s = element('span', undefined, 'line');
      s.append(stroke(l), element('span', l.name));
      li.append(s);
      return li;
    }));
  }
  function stroke(l) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    svg.setAttribute('width', 24);
    svg.setAttribute('height', 12);
    svg.setAttribute('aria-hidden', 'true');
    const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
    for (const [k, v] of [['x1', 0], ['x2', 24], ['y1', 6], ['y2', 6], ['stroke', l.colour], ['stroke-width', Math.max(1.5, l.width)], ['stroke-dasharray', l.dash.join(' ') || 'none']]) line.setAttribute(k, v);
    svg.append(line);
    return svg;
  }
  // places lists what the picture can go to: where memory ran out, and the phases.
  let goals = [];
  function places() {
    goals = [];
    const goal = (name, go) => goals.push({ name, go });
    for (const m of (run.trace ? run.trace.marks : []).slice(0, 10)) {
      goal('Out of memory at ' + eventName(run, m.event), () => {
        setView(m.event - 200, m.event + 50);
        hold(m.event);
        say(m.text);
      });
    }
    if (run.failure) {
      goal('Out of memory', () => {
        setView(run.events - 200, run.last);
        hold(run.events - 1);
        say(run.failure.text);
      });
    }
    run.phases.slice(0, 500).forEach((p, k) => goal(phaseName(p), () => see(p.begin, phaseEnd(run, k))));
    $('phases').replaceChildren(new Option('a phase', ''), ...goals.map((g, k) => new Option(g.name, String(k))));
  }
  $('phases').addEventListener('change', () => {
    const k = $('phases').value;
    if (k !== '') goals[Number(k)].go();
    $('phases').value = '';
  });

  // Layers: of the search, and of the tables. A layer of a table is named as the picture names it.

  const rows = [...document.querySelectorAll('tr[data-layer]')];
  let chosen = ''; // the layer that alone is coloured
  function want(found, key) {
    picture.version = key;
    wanted = found;
    plot.redraw(false, false);
  }
  // mark shows a layer in the tables, in their own boxes.
  function mark(layer) {
    for (const tr of rows) {
      const is = layer !== '' && tr.dataset.layer === layer;
      tr.classList.toggle('chosen', is);
      const b = tr.querySelector('button');
      if (b) b.setAttribute('aria-pressed', String(is && chosen === layer));
      const view = tr.closest('.scroll');
      if (is && view && !tr.hidden) view.scrollTop = tr.offsetTop - view.clientHeight / 2;
    }
  }
  // choose colours a layer alone; none colours all.
  function choose(layer) {
    chosen = layer;
    mark(layer);
    const k = run.layers.indexOf(layer);
    want(layer === '' ? null : run.layers.map((_, i) => i === k), 'layer ' + layer);
    if (layer === '') return;
    const all = [...run.layer.keys()].filter(i => run.layer[i] === k && k >= 0);
    const live = all.filter(i => run.start[i] <= held && (run.end[i] < 0 || run.end[i] > held)).reduce((a, i) => a + run.bytes[i], 0);
    say(layer + ': ' + count(all.length) + ' allocations, ' + size(live) + ' live at ' + eventName(run, held) + '.');
  }
  for (const tr of rows) {
    const cell = tr.cells[0];
    const b = element('button', cell.textContent);
    b.type = 'button';
    b.tabIndex = -1; // one of a table is for Tab, the arrows go on from there
    b.setAttribute('aria-pressed', 'false');
    cell.replaceChildren(b);
    tr.addEventListener('click', () => choose(chosen === tr.dataset.layer ? '' : tr.dataset.layer));
  }
  for (const t of document.querySelectorAll('table.big')) {
    const first = t.querySelector('tr[data-layer] button');
    if (!first) continue;
    first.tabIndex = 0;
    t.addEventListener('keydown', e => {
      const step = e.key === 'ArrowDown' ? 1 : e.key === 'ArrowUp' ? -1 : 0;
      const tr = e.target.closest('tr[data-layer]');
      if (step === 0 || !tr) return;
      e.preventDefault();
      const all = [...t.tBodies[0].rows].filter(r => !r.hidden);
      const next = all[all.indexOf(tr) + step];
      if (!next) return;
      tr.querySelector('button').tabIndex = -1;
      next.querySelector('button').tabIndex = 0;
      next.querySelector('button').focus();
    });
  }
  $('find').addEventListener('input', () => {
    const words = $('find').value.trim().toLowerCase();
    chosen = '';
    mark('');
    if (words !== '') {
      const found = run.layers.map(l => l.toLowerCase().includes(words));
      let n = 0;
      let bytes = 0;
      for (let i = 0; i < run.layer.length; i++) {
        if (run.layer[i] >= 0 && found[run.layer[i]]) { n++; bytes = Math.max(bytes, run.bytes[i]); }
      }
      const layers = found.filter(Boolean).length;
      want(found, 'find ' + words);
      say(count(layers) + ' of ' + count(run.layers.length) + ' layers match, with ' + count(n) + ' allocations' + (n > 0 ? ', the largest of ' + size(bytes) : '') + '.');
    } else {
      want(null, '');
      say('');
    }
    for (const tr of rows) tr.hidden = words !== '' && !tr.textContent.toLowerCase().includes(words);
  });
  $('find').addEventListener('keydown', e => {
    if (e.key !== 'Escape') return;
    $('find').value = '';
    $('find').dispatchEvent(new Event('input'));
  });
  document.addEventListener('keydown', e => {
    if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || e.target.matches('input, select')) return;
    e.preventDefault();
    $('find').focus();
  });

  // Segments

  function segments() {
    const canvas = $('segments');
    if (!canvas) return;
    const list = [...(run.trace ? stateAt(run, held) : run.segments)].sort((a, b) => b.bytes - a.bytes || a.addr - b.addr);
    const row = list.length > 200 ? 4 : list.length > 60 ? 7 : 14;
    const width = canvas.parentElement.clientWidth;
    const ratio = devicePixelRatio;
    const height = Math.min(list.length * row, 20000);
    canvas.width = width * ratio;
    canvas.height = Math.max(1, height) * ratio;
    $('h-segments').textContent = "The allocator's segments at " + (run.trace ? eventName(run, held) : 'the end');
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

