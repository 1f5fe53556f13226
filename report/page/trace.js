
  // What a recording knows beyond its timeline

  // stackLines are the calls that made an allocation, innermost first.
  function stackLines(i, most) {
    if (!run.trace || run.trace.stack[i] < 0) return [];
    const frames = run.trace.stacks[run.trace.stack[i]];
    const out = frames.slice(0, most).map(f => element('div', run.trace.frames[f], 'frame'));
    if (frames.length > most) out.push(element('div', '... and ' + count(frames.length - most) + ' more calls', 'frame'));
    return out;
  }

  // stateAt lays out the segments of an event, with the blocks in use and the
  // free space between them.
  function stateAt(shown, event) {
    const r = shown.base || shown;
    const t = r.trace;
    const segments = new Map(); // by address
    const ends = new Map(); // their addresses by their ends
    const put = s => { segments.set(s.addr, s); ends.set(s.addr + s.bytes, s); };
    const take = s => { segments.delete(s.addr); ends.delete(s.addr + s.bytes); };
    const joins = (a, b) => a && a.kind === 'expandable' && b.kind === 'expandable' && a.stream === b.stream;
    for (const [at, addr, bytes, stream, kind, freed] of t.segments) {
      if (at > event) break;
      let s = { addr, bytes, stream: t.streams[stream], kind: t.kinds[kind], blocks: [] };
      if (!freed) {
        const front = ends.get(addr);
        if (joins(front, s)) { take(front); s = { ...s, addr: front.addr, bytes: front.bytes + s.bytes }; }
        const back = segments.get(addr + bytes);
        if (joins(back, s)) { take(back); s = { ...s, bytes: s.bytes + back.bytes }; }
        put(s);
        continue;
      }
      let old = segments.get(addr);
      if (!old) for (const x of segments.values()) if (x.addr < addr && addr < x.addr + x.bytes) { old = x; break; }
      if (!old) continue;
      take(old);
      if (old.addr < addr) put({ ...old, bytes: addr - old.addr });
      const end = old.addr + old.bytes;
      if (addr + bytes < end) put({ ...old, addr: addr + bytes, bytes: end - addr - bytes });
    }
    const list = [...segments.values()].sort((a, b) => a.addr - b.addr);
    const live = r.events === 0 ? [] : liveAt(r, event).sort((a, b) => t.addr[a] - t.addr[b]);
    let k = 0;
    for (const s of list) {
      let at = s.addr;
      const end = s.addr + s.bytes;
      while (k < live.length && t.addr[live[k]] < s.addr) k++;
      for (; k < live.length && t.addr[live[k]] < end; k++) {
        const i = live[k];
        if (t.addr[i] < at) continue;
        if (t.addr[i] > at) s.blocks.push({ bytes: t.addr[i] - at, used: false, label: '' });
        s.blocks.push({ bytes: t.block[i], used: true, label: layerName(r, r.layer[i]) });
        at = t.addr[i] + t.block[i];
      }
      if (at < end) s.blocks.push({ bytes: end - at, used: false, label: '' });
    }
    return list;
  }

  // segmentsOf is a run of a recording's segments, to be drawn as allocations are.
  function segmentsOf(r) {
    const t = r.trace;
    const out = { name: r.name + ', segments', base: r, events: r.events, start: [], end: [], bytes: [], category: [], layer: [], layers: [], phases: r.phases, levels: [], segments: r.segments,
      kinds: t.kinds, trace: { ...t, block: [], stack: [] } };
    const names = new Map();
    const live = new Map(); // by address: the places of what is mapped
    const add = (event, addr, bytes, stream, kind) => {
      const name = t.kinds[kind] + ' segments of ' + t.streams[stream];
      if (!names.has(name)) { names.set(name, out.layers.length); out.layers.push(name); }
      live.set(addr, out.start.length);
      out.start.push(event); out.end.push(-1); out.bytes.push(bytes); out.category.push(kind); out.layer.push(names.get(name));
      out.trace.block.push(bytes); out.trace.stack.push(-1);
    };
    for (const [event, addr, bytes, stream, kind, freed] of t.segments) {
      if (!freed) { add(Math.max(event, 0), addr, bytes, stream, kind); continue; }
      let left = bytes;
      for (let at = addr; left > 0 && live.has(at);) { // what is unmapped may have been mapped in several pieces
        const i = live.get(at);
        if (out.bytes[i] > left) break;
        live.delete(at);
        out.end[i] = event;
        left -= out.bytes[i];
        at += out.bytes[i];
      }
    }
    prepare(out);
    return out;
  }
  if ($('bands')) {
    $('bands').addEventListener('click', () => {
      const at = held;
      if (run.base) run = run.base; else run = run.segmented || (run.segmented = segmentsOf(run));
      start();
      hold(at);
    });
  }

  // freeTable adds up what is cached, by who may have it.
  function freeTable() {
    const sums = new Map();
    for (const s of stateAt(run, held)) {
      for (const b of s.blocks) {
        if (b.used) continue;
        const key = s.stream + (s.kind === 'small' ? ', small blocks' : '');
        const x = sums.get(key) || { bytes: 0, pieces: 0, most: 0 };
        sums.set(key, { bytes: x.bytes + b.bytes, pieces: x.pieces + 1, most: Math.max(x.most, b.bytes) });
      }
    }
    $('free').tBodies[0].replaceChildren(...[...sums].sort((a, b) => b[1].bytes - a[1].bytes).slice(0, 20).map(([key, x]) => {
      const tr = element('tr');
      tr.append(element('td', key), element('td', size(x.bytes), 'n'), element('td', count(x.pieces), 'n'), element('td', size(x.most), 'n'));
      return tr;
    }));
  }

  // flame draws what is live at the event held by the calls that made it: a box
  // is a call, as wide as what was made under it, its callers above.
  let boxes = [];
  function flame() {
    const canvas = $('flame');
    if (!canvas || !run.trace) return;
    const r = run.base || run;
    const t = r.trace;
    const top = { name: 'all that is live', bytes: 0, calls: new Map(), count: 0 };
    for (const i of r.events === 0 ? [] : liveAt(r, held)) {
      let node = top;
      const bytes = r.bytes[i];
      node.bytes += bytes;
      node.count++;
      const frames = t.stack[i] < 0 ? [] : t.stacks[t.stack[i]];
      for (let k = frames.length - 1; k >= -1; k--) {
        if (k < 0 && frames.length > 0) break;
        const name = k < 0 ? layerName(r, r.layer[i]) : t.frames[frames[k]];
        let next = node.calls.get(name);
        if (!next) node.calls.set(name, next = { name, bytes: 0, calls: new Map(), count: 0 });
        next.bytes += bytes;
        next.count++;
        node = next;
      }
    }
    const row = 18;
    const width = canvas.parentElement.clientWidth;
    boxes = [];
    let depth = 0;
    const place = (node, x, y, w) => {
      if (w < 0.5 || y >= 60) return;
      boxes.push({ node, x, y, w });
      depth = Math.max(depth, y + 1);
      let at = x;
      for (const c of [...node.calls.values()].sort((a, b) => b.bytes - a.bytes)) {
        const wide = node.bytes > 0 ? c.bytes / node.bytes * w : 0;
        place(c, at, y + 1, wide);
        at += wide;
      }
    };
    place(top, 0, 0, width);
    const ratio = devicePixelRatio;
    canvas.width = width * ratio;
    canvas.height = depth * row * ratio;
    canvas.style.height = depth * row + 'px';
    const ctx = canvas.getContext('2d');
    ctx.scale(ratio, ratio);
    ctx.font = '11px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    const css = getComputedStyle(root);
    for (const b of boxes) {
      ctx.fillStyle = css.getPropertyValue('--f' + hash(b.node.name) % 4);
      ctx.fillRect(b.x, b.y * row, Math.max(b.w - 1, 0.5), row - 1);
      if (b.w < 40) continue;
      ctx.fillStyle = css.getPropertyValue('--text');
      let text = b.node.name + ' ' + size(b.node.bytes);
      const room = Math.floor((b.w - 8) / 6);
      if (text.length > room) text = text.slice(0, Math.max(0, room - 1)) + '\u2026';
      ctx.fillText(text, b.x + 4, b.y * row + row / 2, b.w - 6);
    }
    canvas.onmousemove = e => {
      const y = Math.floor(e.offsetY / row);
      const b = boxes.find(x => x.y === y && e.offsetX >= x.x && e.offsetX < x.x + x.w);
      if (b) $('call').textContent = b.node.name + ': ' + size(b.node.bytes) + ' in ' + count(b.node.count) + ', ' + (top.bytes > 0 ? b.node.bytes / top.bytes * 100 : 0).toFixed(1) + ' % of what is live';
    };
  }
  function hash(name) {
    let h = 0;
    for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) >>> 0;
    return h;
  }

  // traced shows what a recording knows of the event held.
  let drawing = 0;
  function traced() {
    if ($('bands')) $('bands').textContent = run.base ? 'Show allocations' : 'Show segments';
    for (const id of ['flames', 'frees', 'bands']) if ($(id)) $(id).hidden = !run.trace;
    if (!run.trace || drawing) return;
    drawing = requestAnimationFrame(() => {
      drawing = 0;
      segments();
      freeTable();
      flame();
    });
  }

