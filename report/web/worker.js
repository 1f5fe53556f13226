// The worker runs the program. It is thrown away when that ends or takes too long.
'use strict';
let answer;
self.memestimateReady = () => answer();
self.onmessage = async ({ data }) => {
  if (data.module) {
    const go = new Go();
    const ready = new Promise(resolve => { answer = resolve; });
    const instance = await WebAssembly.instantiate(data.module, go.importObject);
    go.run(instance).then(() => self.postMessage({ ended: true }));
    await ready;
    self.postMessage({ ready: true });
    return;
  }
  const began = performance.now(), out = self.memestimate(data.args, data.bytes, data.name, data.first);
  self.postMessage({ id: data.id, code: out.code, stdout: new TextDecoder().decode(out.stdout), stderr: out.stderr, ms: performance.now() - began });
};
