'use strict';
(() => {
  const $ = id => document.getElementById(id);
  const patience = 20000; // milliseconds that a file may take
  const controls = ['batch', 'precision', 'optimizer', 'mode', 'gpu', 'dim'];
  let module, worker, waiting, serial = 0, dropped = null, turn = 0;

  // Unpacks the program: base64 of xz, which page.js gets a decoder for, or of gzip, which browsers know.
  async function unpack() {
    const began = performance.now(), text = atob($('program').textContent), how = $('program').dataset.packing;
    $('program').remove();
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const stream = new Blob([packed]).stream();
    const plain = how === 'xz' ? new window['xz-decompress'].XzReadableStream(stream) : stream.pipeThrough(new DecompressionStream(how));
    const program = await new Response(plain).arrayBuffer(), unpacked = performance.now();
    const compiled = await WebAssembly.compile(program), ended = performance.now();
    document.documentElement.dataset.start = Math.round(unpacked - began) + ' ms to unpack, ' + Math.round(ended - unpacked) + ' ms to compile';
    return compiled;
  }

  function start() {
    const source = $('runtime').textContent + '\n' + $('worker').textContent;
    const address = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
    return new Promise((resolve, reject) => {
      worker = new Worker(address);
      worker.onerror = e => { e.preventDefault(); reject(e); lost('the program ended unexpectedly'); };
      worker.onmessage = ({ data }) => {
        if (data.ready) resolve();
        else if (data.ended) lost('the program ended unexpectedly: the file takes more memory than a page has');
        else if (waiting && data.id === waiting.id) {
          clearTimeout(waiting.timer);
          const done = waiting.resolve;
          waiting = null;
          done(data);
        }
      };
      worker.postMessage({ module });
    });
  }

  // A worker that is lost answers with an error, and the next question gets a new one.
  function lost(why) {
    if (worker) worker.terminate();
    worker = null;
    if (waiting) {
      clearTimeout(waiting.timer);
      const done = waiting.resolve;
      waiting = null;
      done({ code: 70, stdout: '', stderr: 'memestimate: ' + why + '\n' });
    }
  }

  // Runs the program; questions are asked one after the other.
  let queue = Promise.resolve();
  function run(args, bytes = new Uint8Array(), name = '', first = false) {
    queue = queue.then(async () => {
      if (!worker) await start();
      return new Promise(resolve => {
        const id = ++serial;
        waiting = { id, resolve, timer: setTimeout(() => lost('no answer in ' + patience / 1000 + ' seconds'), patience) };
        worker.postMessage({ id, args, bytes, name, first });
      });
    });
    return queue;
  }

  function flags(kind) {
    const out = [];
    if ($('gpu').value) out.push('--gpu', $('gpu').value);
    if (kind === 'recording') return out;
    if (kind !== 'fixed' && $('batch').value) out.push('--batch', $('batch').value);
    if ($('precision').value !== 'fp32') out.push('--precision', $('precision').value);
    if ($('mode').value === 'infer') out.push('--mode', 'infer');
    else if ($('optimizer').value !== 'adamw') out.push('--optimizer', $('optimizer').value);
    for (const d of $('dim').value.split(/[\s,]+/).filter(Boolean)) out.push('--dim', d);
    return out;
  }

  // What the program says, with the file's name in place of the standard input's.
  function say(text) {
    const name = dropped.name;
    $('status').textContent = text.replace(/^memestimate: (hint: )?(-: )?/gm, (_, hint, file) => file ? name + ': ' : hint ? 'Hint: ' : '').replaceAll('memestimate - ', '').trim();
  }

  // Asks about what was dropped. A later question makes the answer to an earlier one void.
  async function ask() {
    if (!dropped) return;
    const mine = ++turn, { bytes, name, model } = dropped, began = performance.now();
    $('status').textContent = 'Estimating ' + name + ' ...';
    let kind = '', out;
    const attempt = (extra, first) => run([model, ...flags(kind), '--color', 'always', ...extra], bytes, name, first);
    out = await attempt([], true);
    if (out.code === 2 && out.stderr.includes('is a recording')) { kind = 'recording'; out = await attempt([], true); }
    if (out.code === 2 && /^memestimate: \S+: --batch: /.test(out.stderr) && kind === '') {
      kind = 'fixed';
      const again = await attempt([], true);
      if (again.code < 2) out = again;
    }
    if (mine !== turn) return;
    if (out.code === 3 && model === '-' && /snapshot|gzip file|zip archive|pickle/i.test(out.stderr)) {
      const drawn = await run(['snapshot', 'html', '-'], bytes, name);
      const shown = drawn.code === 0 ? await run(['snapshot', 'show', '-'], bytes, name) : drawn;
      if (mine !== turn) return;
      if (drawn.code === 0 && shown.code === 0) {
        show(shown.stdout, '', drawn.stdout);
        document.documentElement.dataset.ms = String(Math.round(performance.now() - began));
        return finish(began, name, 'snapshot');
      }
      if (/snapshot/i.test(out.stderr)) out = drawn;
    }
    if (out.code > 1 || !out.stdout) {
      show('', '', '');
      say(out.stderr || 'memestimate: exit code ' + out.code);
      document.documentElement.dataset.done = String(mine);
      return;
    }
    show(out.stdout, '', '');
    document.documentElement.dataset.ms = String(Math.round(performance.now() - began));
    document.documentElement.dataset.inside = String(Math.round(out.ms)); // of these, in the program
    const weighed = await attempt([]); // the same, with what its guesses weigh
    if (mine !== turn) return;
    if (weighed.code < 2 && weighed.stdout !== out.stdout) { out = weighed; show(out.stdout, '', ''); }
    const drawn = await attempt(['--format', 'html']);
    if (mine !== turn) return;
    show(out.stdout, '', drawn.code < 2 ? drawn.stdout : '');
    finish(began, name, kind || 'model');
    if ($('gpu').value && kind === '') {
      const fit = await run(['fit', model, ...flags('fixed'), '--color', 'always'], bytes, name);
      if (mine === turn && fit.code < 2) { paint($('fit'), fit.stdout); $('fit').hidden = false; }
    }
  }

  function finish(began, name, kind) {
    $('status').textContent = name + ': answered in ' + Math.round(performance.now() - began) + ' ms.';
    document.documentElement.dataset.kind = kind;
    document.documentElement.dataset.done = String(turn);
  }

  function show(answer, fit, picture) {
    for (const [id, text] of [['answer', answer], ['fit', fit]]) {
      paint($(id), text.replace(/\n(\x1b\[1m)?next(\x1b\[0m)? .*(\n .*)*\n?$/, '\n'));
      $(id).hidden = text === '';
    }
    $('picture').hidden = picture === '';
    if (picture !== '') $('picture').srcdoc = picture;
    else $('picture').removeAttribute('srcdoc');
  }

  // Shows a text with the colours that a terminal would give it: each is a class.
  function paint(element, text) {
    element.textContent = '';
    let style = '';
    for (const [i, part] of text.split(/\x1b\[([\d;]*)m/).entries()) {
      if (i % 2) { style = part === '0' ? '' : part; continue; }
      if (!style) { element.append(part); continue; }
      const span = document.createElement('span');
      span.className = style.split(';').map(n => 'c' + n).join(' ');
      span.textContent = part;
      element.append(span);
    }
  }

  async function take(file) {
    if (!file) return;
    if (file.size > 1 << 30) {
      dropped = { name: file.name };
      say('memestimate: ' + file.name + ' has more than 1 GiB: the graph without weights is enough (scripts/strip_weights.py)');
      return;
    }
    dropped = { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()), model: '-' };
    $('builtin').value = '';
    ask();
  }

  // A link holds the settings.
  function remember() {
    const p = new URLSearchParams();
    for (const id of controls) if ($(id).value && $(id).value !== $(id).dataset.first) p.set(id, $(id).value);
    if ($('builtin').value) p.set('model', $('builtin').value);
    history.replaceState(null, '', '#' + p);
  }
  function recall() {
    const p = new URLSearchParams(location.hash.slice(1));
    for (const id of controls) {
      $(id).dataset.first = $(id).value;
      if (p.has(id)) $(id).value = p.get(id);
    }
    return p.get('model');
  }

  async function begin() {
    module = await unpack();
    await start();
    const known = JSON.parse((await run(['gpus', '--format', 'json'])).stdout);
    for (const g of known.gpus) $('gpu').add(new Option(g.name.replace(/^NVIDIA (GeForce )?/, ''), g.id));
    const models = JSON.parse((await run(['models', '--format', 'json'])).stdout);
    for (const m of models.models) $('builtin').add(new Option(m.name, m.name));
    const model = recall();
    $('status').textContent = 'Ready.';
    for (const id of controls) $(id).addEventListener('change', () => { remember(); ask(); });
    $('settings').addEventListener('submit', e => e.preventDefault());
    $('file').addEventListener('change', () => take($('file').files[0]));
    // The same file may be chosen again, exported anew: it is a change only to an input that has none.
    $('file').addEventListener('click', () => { $('file').value = ''; });
    const builtin = () => {
      if (!$('builtin').value) return;
      dropped = { name: $('builtin').value, bytes: new Uint8Array(), model: $('builtin').value };
      remember();
      ask();
    };
    $('builtin').addEventListener('change', builtin);
    for (const b of document.querySelectorAll('#drop button')) b.addEventListener('click', () => { $('builtin').value = b.value; builtin(); });
    addEventListener('dragover', e => { e.preventDefault(); $('drop').classList.add('over'); });
    addEventListener('dragleave', () => $('drop').classList.remove('over'));
    addEventListener('drop', e => { e.preventDefault(); $('drop').classList.remove('over'); take(e.dataTransfer.files[0]); });
    document.documentElement.dataset.ready = 'yes';
    if (model) { $('builtin').value = model; builtin(); }
  }
  window.memestimate = run; // for tests, and for the curious
  begin().catch(e => { $('status').textContent = 'This browser cannot run the program: ' + e.message; });
})();
