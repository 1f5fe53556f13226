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

