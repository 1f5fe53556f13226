  // Every run that is shown begins here.

  repaint = () => {
    readColours();
    picture.key = '';
    build();
    legend();
    tables();
    segments();
    traced();
  };
  function start() {
    held = run.peakAt;
    wanted = null;
    chosen = '';
    repaint();
    mark('');
    // Where memory ran out early, most events are those of loading: the picture begins with the first step.
    const step = run.failure ? run.phases.find(p => p.step > 0) : null;
    setView(step ? step.begin : 0, run.last);
    $('peak').textContent = run.failure ? 'Out of memory' : 'Peak';
    places();
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
