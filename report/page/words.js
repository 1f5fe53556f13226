  const $ = id => document.getElementById(id);
  const data = JSON.parse($('data').textContent);
  const root = document.documentElement;
  // The page that shows this one in a frame makes room for all of it.
  if (parent !== window) {
    const tell = () => parent.postMessage({ memestimateHeight: document.body.offsetHeight }, '*');
    new ResizeObserver(tell).observe(document.body);
  }

  // Words

  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  function size(n, digits = 2) {
    let u = 0;
    let v = Math.abs(n);
    while (v >= 1024 && u + 1 < units.length) { v /= 1024; u++; }
    return (n < 0 ? '-' : '') + (u === 0 ? v.toFixed(0) : v.toFixed(digits)) + ' ' + units[u];
  }
  const count = n => n.toLocaleString('en-US');
  // Text only ever reaches the page as text.
  function element(name, text, className) {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  }

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

  // Theme

  let repaint = () => {}; // what does not follow the colours by itself
  function setTheme(name) {
    root.dataset.theme = name;
    $('theme').textContent = name === 'dark' ? 'Light' : 'Dark';
    repaint();
  }
  $('theme').addEventListener('click', () => setTheme(root.dataset.theme === 'dark' ? 'light' : 'dark'));
  const dark = matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', () => setTheme(dark.matches ? 'dark' : 'light'));
  setTheme(dark.matches ? 'dark' : 'light');
  if (data.runs.length === 0) { // nothing to draw
    root.dataset.ready = 'yes';
    return;
  }

