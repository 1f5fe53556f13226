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
    run.last = n + (run.failure ? Math.max(2, n * 0.04) : 0); // where the picture ends: a failure is drawn behind the events
    if (run.failure) run.peakAt = Math.max(0, n - 1); // the moment that matters
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
  const phaseName = p => (p.step > 0 ? 'step ' + p.step + ' ' : '') + p.name;
  const phaseEnd = (r, k) => (k + 1 < r.phases.length ? r.phases[k + 1].begin : r.events);
  function phaseOf(r, event) {
    let found = null;
    for (const p of r.phases) {
      if (p.begin > event) break;
      found = p;
    }
    return found === null ? '' : phaseName(found);
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

