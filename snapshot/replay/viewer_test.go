package replay

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/test/chromium"
	"github.com/memestimate/memestimate/test/must"
)

// viewerEnv names a folder with PyTorch's MemoryViz.js (torch/utils/viz) and the
// d3.js of D3 7, which it imports. They are not ours to keep here.
const viewerEnv = "MEMESTIMATE_MEMORYVIZ"

// viewer serves the viewer's own script with D3 from the same place.
func viewer(t *testing.T, pickle []byte, view string) http.Handler {
	t.Helper()
	dir := os.Getenv(viewerEnv)
	if dir == "" {
		t.Skipf("%s is not set: PyTorch's viewer is not tried on written snapshots", viewerEnv)
	}
	script := must.Read(t, filepath.Join(dir, "MemoryViz.js"))
	script = regexp.MustCompile(`(?m)^import .*;$`).ReplaceAll(script, nil)
	script = append([]byte("const {axisLeft, scaleLinear, zoom, zoomIdentity, brushX} = d3;\n"), script...)
	mux := http.NewServeMux()
	mux.HandleFunc("/d3.js", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r,
			filepath.Join(dir, "d3.js"))
	})
	mux.HandleFunc("/viz.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		w.Write(script)
	})
	mux.HandleFunc("/favicon.ico", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<!doctype html><body><script src="/d3.js"></script><script type="module">
import {add_local_files} from "/viz.js";
add_local_files([{name: "s", base64: %q}], %q);
requestAnimationFrame(() => setTimeout(() => { document.body.dataset.ready = "yes" }, 100));
</script>`, base64.StdEncoding.EncodeToString(pickle), view)
	})
	return mux
}

// PyTorch's viewer shows what is written, all three views of it, without an error.
func TestViewer(t *testing.T) {
	exe := chromium.Path(t)
	files := map[string][]byte{}
	for _, name := range []string{"resnet50_seed", "oom", "expandable", "mlp_allstacks"} {
		s := load(t, name)
		l := requests(t, s)
		r, err := caching.NewReplayer(caching.Config{}).Finish(l)
		must.OK(t, err)
		var pb bytes.Buffer
		must.OK(t, WritePredicted(&pb, l.Layers, l.Events, r, "model.onnx", "", nil))
		files["predicted "+name] = pb.Bytes()
	}
	for name, pickle := range files {
		for _, view := range []string{"Active Memory Timeline", "Allocator State History", "Active Cached Segment Timeline"} {
			t.Run(name+", "+view, func(t *testing.T) {
				server := httptest.NewServer(viewer(t, pickle, view))
				defer server.Close()
				opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(exe), chromedp.NoSandbox,
					chromedp.Flag("disable-dev-shm-usage", true))
				alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
				defer cancel()
				ctx, cancelTab := chromedp.NewContext(alloc)
				defer cancelTab()
				ctx, cancelTime := context.WithTimeout(ctx, 20*time.Second)
				defer cancelTime()
				var mu sync.Mutex
				var thrown []string
				if err := chromedp.Listen(ctx, func(ev any) {
					if e, ok := ev.(*runtime.EventExceptionThrown); ok {
						mu.Lock()
						thrown = append(thrown, fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
						mu.Unlock()
					}
				}); err != nil {
					t.Fatal(err)
				}
				err := chromedp.Do(ctx, chromedp.Navigate(server.URL), chromedp.WaitReady("body[data-ready=yes]"))
				mu.Lock()
				if len(thrown) > 0 || err != nil {
					t.Errorf("%v: the viewer throws %s", err, strings.Join(thrown, "; "))
				}
				mu.Unlock()
				shapes, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("polygon, rect").length`))
				if err != nil || shapes < 8 {
					t.Errorf("%v: only %d shapes", err, shapes)
				}
				legend, err := chromedp.Run(ctx,
					chromedp.Evaluate[string](`[...document.querySelectorAll("text")].map(x => x.textContent).join()`))
				if err != nil || strings.HasPrefix(name, "predicted") && view == "Active Memory Timeline" &&
					!strings.Contains(legend, "activation") && name != "predicted oom" {
					t.Errorf("%v: the legend has no categories: %.200s", err, legend)
				}
				if dir := os.Getenv("SCREENSHOTS"); dir != "" {
					png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
					must.OK(t, err)
					if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name+" "+view, " ", "_")+".png"), png,
						0o600); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
