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

