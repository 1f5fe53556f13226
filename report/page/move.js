  // Moving

  function setView(min, max) {
    const last = Math.max(1, run.last);
    const width = Math.min(Math.max(max - min, 4), last);
    min = Math.max(0, Math.min(min, last - width));
    plot.setScale('x', { min, max: min + width });
    box.dataset.view = [min, min + width].map(Math.round).join(' '); // for whoever wonders, and for tests
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
    setView(0, run.last);
    say('The whole run: ' + eventCount(run) + '.');
  }

  // move lets a pointer drag the picture, two pinch it, and Ctrl with the wheel zoom. The wheel alone is the page's.
  function move(over) {
    const down = new Map(); // pointers that are on the picture, and where
    let from = null; // what a drag began with
    let moved = false;
    let due = 0;
    const x = e => e.clientX - over.getBoundingClientRect().left;
    const begin = () => {
      const xs = [...down.values()];
      from = { min: plot.scales.x.min, max: plot.scales.x.max, middle: xs.reduce((a, b) => a + b, 0) / xs.length, apart: xs.length > 1 ? Math.abs(xs[0] - xs[1]) : 0 };
    };
    over.addEventListener('pointerdown', e => {
      if (e.button !== 0) return;
      down.set(e.pointerId, x(e));
      if (down.size === 1) moved = false;
      begin();
    });
    over.addEventListener('pointermove', e => {
      if (!down.has(e.pointerId)) return;
      down.set(e.pointerId, x(e));
      const xs = [...down.values()];
      const middle = xs.reduce((a, b) => a + b, 0) / xs.length;
      if (!moved && xs.length === 1 && Math.abs(middle - from.middle) < 4) return;
      if (!moved) {
        moved = true;
        tip.hidden = true;
        over.classList.add('moving');
        over.setPointerCapture(e.pointerId);
      }
      if (due) return;
      due = requestAnimationFrame(() => {
        due = 0;
        if (!from) return;
        const now = [...down.values()];
        if (now.length === 0) return;
        const at = now.reduce((a, b) => a + b, 0) / now.length;
        const factor = now.length > 1 && from.apart > 0 ? from.apart / Math.max(8, Math.abs(now[0] - now[1])) : 1;
        const width = (from.max - from.min) * factor;
        const value = from.min + (from.max - from.min) * from.middle / over.clientWidth; // what was below the fingers
        const min = value - width * at / over.clientWidth;
        setView(min, min + width);
      });
    });
    const up = e => {
      if (!down.delete(e.pointerId)) return;
      over.classList.remove('moving');
      if (down.size > 0) begin();
    };
    over.addEventListener('pointerup', up);
    over.addEventListener('pointercancel', up);
    over.addEventListener('click', () => {
      if (moved || plot.cursor.idx === null || plot.cursor.idx === undefined) return;
      const layer = under >= 0 && run.layer[under] >= 0 ? run.layers[run.layer[under]] : '';
      hold(plot.cursor.idx);
      mark(layer);
    });
    over.addEventListener('dblclick', whole);
    over.addEventListener('wheel', e => {
      const { min, max } = plot.scales.x;
      if (e.ctrlKey || e.metaKey) zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 100)) * 0.25), plot.posToVal(e.offsetX, 'x'));
      else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) setView(min + e.deltaX * (max - min) / over.clientWidth, max + e.deltaX * (max - min) / over.clientWidth);
      else return;
      e.preventDefault();
    }, { passive: false });
    over.addEventListener('mouseleave', () => { tip.hidden = true; });
  }
  // The names above the picture are to be clicked.
  const phaseAt = e => {
    const r = plot.over.getBoundingClientRect();
    if (e.clientY >= r.top || e.clientY < r.top - band || e.clientX < r.left || e.clientX > r.right) return null;
    const at = plot.posToVal(e.clientX - r.left, 'x');
    if (e.clientY < r.top - 18) return stepsOf(run).find(s => s.begin <= at && at < s.end) || null;
    const k = run.phases.findIndex((p, i) => p.begin <= at && at < phaseEnd(run, i));
    return k < 0 ? null : { begin: run.phases[k].begin, end: phaseEnd(run, k) };
  };
  box.addEventListener('mousemove', e => { box.style.cursor = phaseAt(e) ? 'pointer' : ''; });
  box.addEventListener('click', e => { const p = phaseAt(e); if (p) see(p.begin, p.end); });
  // see shows a part of the run, and holds its peak.
  function see(begin, end) {
    setView(begin, end);
    let most = begin;
    for (let e = begin; e < end; e++) if (run.total[e] > run.total[most]) most = e;
    hold(most);
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
      case 'Escape': choose(''); whole(); break;
      default: return;
    }
    e.preventDefault();
  });
  $('in').addEventListener('click', () => zoom(0.5));
  $('out').addEventListener('click', () => zoom(2));
  $('all').addEventListener('click', whole);
  $('peak').addEventListener('click', () => hold(run.peakAt));

