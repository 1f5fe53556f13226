  // Theme

  function setTheme(name) {
    root.dataset.theme = name;
    $('theme').textContent = name === 'dark' ? 'Light' : 'Dark';
    readColours();
    picture.key = '';
    build();
    legend();
    tables();
    segments();
    traced();
  }
  $('theme').addEventListener('click', () => setTheme(root.dataset.theme === 'dark' ? 'light' : 'dark'));

  function start() {
    held = run.peakAt;
    wanted = null;
    setTheme(root.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'));
    setView(0, run.events);
    phaseButtons();
  }
  if ($('run')) {
    $('run').addEventListener('change', () => {
      run = data.runs[Number($('run').value)];
      $('find').value = '';
      start();
      say(run.name + ': ' + moment(run.peakAt));
    });
  }
  new ResizeObserver(() => {
    if (plot && Math.abs(plot.width - box.clientWidth) > 1) {
      plot.setSize({ width: Math.max(200, box.clientWidth), height: box.clientHeight });
      segments();
      flame();
    }
  }).observe(box);
  start();
  root.dataset.ready = 'yes';
