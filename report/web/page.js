'use strict';
(() => {
  const $ = id => document.getElementById(id);
  const patience = 20000; // milliseconds that a file may take
  const controls = ['batch', 'precision', 'mode', 'optimizer', 'checkpoint', 'adapters', 'rank', 'targets', 'dim', 'gpu', 'budget', 'question'];
  const known = JSON.parse($('configurations').textContent);
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
        const id = ++serial, limit = args.includes('--ways') || args[0] === 'fit' ? 6 * patience : patience;
        waiting = { id, resolve, timer: setTimeout(() => lost('no answer in ' + limit / 1000 + ' seconds'), limit) };
        worker.postMessage({ id, args, bytes, name, first });
      });
    });
    return queue;
  }

  const words = id => $(id).value.split(/[\s,]+/).filter(Boolean);

  // Flags about the run, as the command line has them; none for a batch of 0.
  function runs(batch) {
    const out = batch > 0 ? ['--batch', String(batch)] : [];
    if ($('precision').value !== 'fp32') out.push('--precision', $('precision').value);
    if ($('mode').value === 'infer') out.push('--mode', 'infer');
    else {
      if ($('optimizer').value !== 'adamw') out.push('--optimizer', $('optimizer').value);
      if ($('checkpoint').checked) out.push('--checkpoint', 'blocks');
      if ($('adapters').value) out.push('--lora', 'r=' + $('rank').value + ($('adapters').value === 'qlora' ? ',base=nf4' : '') + ',targets=' + $('targets').value.trim());
    }
    for (const d of words('dim')) out.push('--dim', d);
    return out;
  }

  // What the run is held against.
  const limits = budget => [...($('gpu').value ? ['--gpu', $('gpu').value] : []), ...($('budget').value.trim() ? [budget, $('budget').value.trim()] : [])];

  // The question about a run, as a command line.
  function command(model, kind, batch) {
    if (kind === 'recording') return [model, ...limits('--budget')];
    const ways = $('question').value === 'ways' && $('mode').value === 'train' ? ['--ways'] : [];
    return [model, ...runs(kind === 'fixed' ? 0 : batch), ...limits('--budget'), ...ways];
  }

  // Finds the largest batch that is safe, or else fits; 0 where the model has its own, or none fits.
  async function largest({ model, bytes, name }) {
    if (!limits('').length) return { batch: 0, said: 'Choose a GPU or a budget that the batch shall fit.' };
    const out = await run(['fit', model, ...runs(0), ...limits('--memory'), '--format', 'json'], bytes, name);
    if (out.code > 1) return { batch: 0, said: sentence(out.stderr) };
    const { batch, safe_batch: safe } = JSON.parse(out.stdout);
    return { batch: safe || batch, said: batch === 0 ? 'No batch fits.' : 'Batch ' + batch + ' is the largest that fits, ' + (safe || 'none') + ' the largest that is safe.' };
  }

  // The command that has PyTorch record a model of the Hugging Face hub.
  function recorded(model) {
    const out = ['memestimate', model], rank = $('rank').value, sequence = words('dim').map(d => /^seq\w*=(\d+)$/.exec(d)).find(Boolean);
    if ($('batch').value > 1) out.push('--batch', $('batch').value);
    if (sequence) out.push('--seq', sequence[1]);
    if ($('precision').value !== 'bf16') out.push('--precision', $('precision').value);
    if ($('mode').value === 'infer') out.push('--mode', 'infer');
    else {
      if ($('adapters').value) out.push('--' + $('adapters').value, rank);
      if ($('optimizer').value !== 'adamw') out.push('--optimizer', $('optimizer').value);
      if ($('checkpoint').checked && $('adapters').value !== 'qlora') out.push('--checkpoint');
    }
    if ($('gpu').value || $('budget').value) out.push('--gpu', $('budget').value.replace(/\s/g, '') || $('gpu').value);
    const needs = ['torch', 'transformers', ...($('adapters').value ? ['peft'] : []), ...($('adapters').value === 'qlora' ? ['bitsandbytes'] : [])];
    return 'pip install memestimate ' + needs.join(' ') + '\n' + out.map(quote).join(' ');
  }
  const quote = word => /^[\w./:=@%+,-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";

  // What the program says, with the file's name in place of the standard input's.
  function sentence(text) {
    try { text = 'memestimate: ' + JSON.parse(text).error; } catch { /* as it is, in text */ }
    return text.replace(/^memestimate: (hint: )?(-: )?/gm, (_, hint, file) => file ? dropped.name + ': ' : hint ? 'Hint: ' : '').replaceAll('memestimate - ', '').trim();
  }

  // Asks about what was dropped. A later question makes the answer to an earlier one void.
  async function ask() {
    if (!dropped) return;
    const mine = ++turn, { bytes, name, model, config } = dropped, began = performance.now();
    $('recorded').hidden = !config;
    if (config) {
      show('');
      $('step').disabled = false;
      $('command').textContent = recorded(model);
      $('copy').textContent = 'Copy';
      $('status').textContent = name + ' has ' + config.parameters.toLocaleString('en-US') + ' parameters.';
      return finish(mine, 'configuration');
    }
    $('status').textContent = 'Estimating ' + name + ' ...';
    let kind = '', out;
    let batch = $('batch').value, found = '';
    if ($('question').value === 'fit') {
      const fitting = await largest(dropped);
      if (mine !== turn) return;
      found = ' ' + fitting.said;
      batch = fitting.batch || batch;
    }
    const attempt = first => run([...command(model, kind, batch), '--format', 'html'], bytes, name, first);
    out = await attempt(true);
    if (out.code === 2 && out.stderr.includes('is a recording')) { kind = 'recording'; out = await attempt(true); }
    if (out.code === 2 && /^memestimate: \S+: --batch: /.test(out.stderr) && kind === '') {
      kind = 'fixed';
      const again = await attempt(true);
      if (again.code < 2) out = again;
    }
    if (mine !== turn) return;
    if (out.code === 3 && model === '-' && /snapshot|gzip file|zip archive|pickle/i.test(out.stderr)) {
      const drawn = await run(['snapshot', 'html', '-'], bytes, name);
      if (mine !== turn) return;
      if (drawn.code === 0) { kind = 'snapshot'; out = drawn; }
      else if (/snapshot/i.test(out.stderr)) out = drawn;
    }
    $('step').disabled = kind === 'recording' || kind === 'snapshot'; // which have their run
    if (out.code > 1 || !out.stdout) {
      show('');
      $('status').textContent = sentence(out.stderr || 'memestimate: exit code ' + out.code);
      return finish(mine, '');
    }
    show(out.stdout);
    const taken = Math.round(performance.now() - began);
    document.documentElement.dataset.ms = String(taken);
    document.documentElement.dataset.inside = String(Math.round(out.ms)); // of these, in the program
    if (kind === '' || kind === 'fixed') {
      const weighed = await attempt(false); // the same, with what its guesses weigh
      if (mine !== turn) return;
      if (weighed.code < 2 && weighed.stdout !== out.stdout) show(weighed.stdout);
    }
    $('status').textContent = name + ': answered in ' + taken + ' ms.' + found + ($('step').disabled ? ' Its settings are those that it ran with.' : '');
    finish(mine, kind || 'model');
  }

  function finish(mine, kind) {
    document.documentElement.dataset.kind = kind;
    document.documentElement.dataset.done = String(mine);
  }

  // Shows a report in the frame, which says how high it is.
  function show(report) {
    $('picture').hidden = report === '';
    if (report !== '') $('picture').srcdoc = report;
    else $('picture').removeAttribute('srcdoc');
  }
  addEventListener('message', ({ source, data }) => {
    const height = data && data.memestimateHeight;
    if (source === $('picture').contentWindow && height > 0) $('picture').style.height = Math.min(height + 2, 50000) + 'px';
  });

  async function take(file) {
    if (!file) return;
    if (file.size > 1 << 30) {
      dropped = { name: file.name };
      $('status').textContent = file.name + ' has more than 1 GiB: the graph without weights is enough (scripts/strip_weights.py)';
      return;
    }
    dropped = { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()), model: '-' };
    $('model').value = '';
    remember();
    ask();
  }

  // The address holds the question.
  const worth = e => e.type === 'checkbox' ? (e.checked ? 'on' : '') : e.value;
  function remember() {
    const p = new URLSearchParams();
    for (const id of controls) if (worth($(id)) !== $(id).dataset.first) p.set(id, worth($(id)));
    if ($('model').value) p.set('model', $('model').value);
    history.replaceState(null, '', '#' + p);
  }
  function recall() {
    const p = new URLSearchParams(location.hash.slice(1));
    for (const id of controls) {
      const e = $(id);
      e.dataset.first = worth(e);
      if (!p.has(id)) continue;
      if (e.type === 'checkbox') e.checked = p.get(id) === 'on';
      else if (e.tagName !== 'SELECT' || [...e.options].some(o => o.value === p.get(id))) e.value = p.get(id);
    }
    return p.get('model');
  }

  // Shows the controls that matter.
  function matter() {
    for (const e of document.querySelectorAll('.train')) e.hidden = $('mode').value === 'infer';
    for (const e of document.querySelectorAll('.lora')) e.hidden = $('mode').value === 'infer' || !$('adapters').value;
    if (dropped && dropped.config) $('targets').parentElement.hidden = true; // which PEFT knows
  }

  async function begin() {
    module = await unpack();
    await start();
    const gpus = JSON.parse((await run(['gpus', '--format', 'json'])).stdout);
    for (const g of gpus.gpus) $('gpu').add(new Option(g.name.replace(/^NVIDIA (GeForce )?/, ''), g.id));
    const models = JSON.parse((await run(['models', '--format', 'json'])).stdout);
    for (const m of models.models) $('built-in').append(new Option(m.name, m.name));
    for (const m of known) $('known').append(new Option(m.name, m.name));
    const model = recall();
    matter();
    $('status').textContent = 'Ready.';
    for (const id of controls) $(id).addEventListener('change', () => { matter(); remember(); ask(); });
    $('settings').addEventListener('submit', e => e.preventDefault());
    $('file').addEventListener('change', () => take($('file').files[0]));
    // The same file may be chosen again, exported anew: it is a change only to an input that has none.
    $('file').addEventListener('click', () => { $('file').value = ''; });
    const choose = fresh => {
      const name = $('model').value;
      if (!name) return;
      const config = known.find(m => m.name === name);
      if (config && fresh && !(dropped && dropped.config)) { $('batch').value = 1; $('precision').value = 'bf16'; } // as they are trained
      dropped = { name, bytes: new Uint8Array(), model: name, config };
      matter();
      remember();
      ask();
    };
    $('model').addEventListener('change', () => choose(true));
    for (const b of document.querySelectorAll('#drop button')) b.addEventListener('click', () => { $('model').value = b.value; choose(true); });
    $('copy').addEventListener('click', async () => {
      await navigator.clipboard.writeText($('command').textContent).then(() => { $('copy').textContent = 'Copied'; }, () => getSelection().selectAllChildren($('command')));
    });
    addEventListener('dragover', e => { e.preventDefault(); $('drop').classList.add('over'); });
    addEventListener('dragleave', () => $('drop').classList.remove('over'));
    addEventListener('drop', e => { e.preventDefault(); $('drop').classList.remove('over'); take(e.dataTransfer.files[0]); });
    document.documentElement.dataset.ready = 'yes';
    if (model) { $('model').value = model; choose(false); }
  }
  window.memestimate = run; // for tests, and for the curious
  begin().catch(e => { $('status').textContent = 'This browser cannot run the program: ' + e.message; });
})();
