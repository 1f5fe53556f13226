package page

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/chromium"
	"github.com/memestimate/memestimate/test/must"
)

// A tab is a page in a browser, with all it complained about and asked for.
type tab struct {
	ctx      context.Context
	mu       sync.Mutex
	trouble  []string
	requests []string
}

// open opens a page from a file, as a user does.
func open(t testing.TB, p *Page, width, height int64) *tab {
	t.Helper()
	exe := chromium.Path(t)
	var html bytes.Buffer
	must.OK(t, Write(&html, p))
	path := filepath.Join(t.TempDir(), "page.html")
	must.OK(t, os.WriteFile(path, html.Bytes(), 0o600))
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(exe), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true))
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancelAlloc)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	// against a browser that hangs, not one that others leave little time
	ctx, cancelTime := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(cancelTime)
	b := &tab{ctx: ctx}
	err := chromedp.Listen(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			b.trouble = append(b.trouble, e.ExceptionDetails.Text+" "+fmt.Sprint(e.ExceptionDetails.Exception))
		case *runtime.EventConsoleAPICalled:
			b.trouble = append(b.trouble, "console: "+string(e.Type))
		case *log.EventEntryAdded:
			b.trouble = append(b.trouble, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			b.requests = append(b.requests, e.Request.URL)
		}
	})
	must.OK(t, err)
	if _, err := chromedp.Call(ctx, performance.Enable,
		performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height),
		chromedp.Navigate((&url.URL{Scheme: "file", Path: path}).String())); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.WaitReady("html[data-ready=yes]")); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		t.Fatalf("the page never became ready: %v; %q", err, b.trouble)
	}
	return b
}

// work returns the processor time that the page has taken of its thread, in milliseconds: scripts, style, layout and
// painting. What others do on the machine meanwhile is not in it.
func (b *tab) work(t testing.TB) float64 {
	t.Helper()
	r, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	must.OK(t, err)
	for _, m := range r.Metrics {
		if m.Name == "TaskDuration" {
			return 1000 * m.Value
		}
	}
	t.Fatal("the browser does not tell how long its tasks took")
	return 0
}

// eval runs an expression in the page.
func eval[T any](t testing.TB, b *tab, js string, opts ...chromedp.EvaluateOption) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, opts...))
	if err != nil {
		t.Fatalf("%s: %v", js, err)
	}
	return v
}

func (b *tab) do(t testing.TB, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	must.OK(t, chromedp.Do(b.ctx, steps...))
}

// quiet wants no complaint of the browser, and no request but the page's own.
func (b *tab) quiet(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.trouble) > 0 {
		t.Errorf("the browser complains: %q", b.trouble)
	}
	for _, r := range b.requests {
		if !strings.HasPrefix(r, "file:///") || !strings.HasSuffix(r, "/page.html") {
			t.Errorf("the page asks for %s", r)
		}
	}
}

// view is shot without what one must scroll for.
func (b *tab) view(t testing.TB, name string) {
	t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	must.OK(t, err)
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		must.OK(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
	}
}

// shot saves a picture of the page where SCREENSHOTS says, to be looked at.
func (b *tab) shot(t testing.TB, name string) {
	t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	must.OK(t, err)
	if len(png) < 10_000 {
		t.Errorf("%s: a picture of %d bytes", name, len(png))
	}
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		must.OK(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
	}
}

// steps is a made-up training run of so many layers and steps.
func steps(layers, n int, name func(i int) string) *timeline.Log {
	l := new(timeline.Log)
	alloc := func(c timeline.Category, layer int, bytes int64) int32 {
		return l.Alloc(timeline.Request{Bytes: bytes, Layer: int32(layer), Category: c}, 0)
	}
	grads := make([]int32, layers)
	for i := range layers {
		l.Layers = append(l.Layers, name(i))
		alloc(timeline.Parameter, i, int64(1+i%7)<<20)
	}
	for s := 1; s <= n; s++ {
		l.Mark(int32(s), timeline.Forward)
		acts := make([]int32, layers)
		for i := range layers {
			w := alloc(timeline.Workspace, i, 3<<20)
			acts[i] = alloc(timeline.Activation, i, int64(8-i%5)<<20)
			l.Free(w, int32(i))
		}
		l.Mark(int32(s), timeline.Backward)
		for i := layers - 1; i >= 0; i-- {
			grads[i] = alloc(timeline.Gradient, i, int64(1+i%7)<<20)
			l.Free(acts[i], int32(i))
		}
		l.Mark(int32(s), timeline.Optimizer)
		for i := range layers {
			l.Free(grads[i], int32(i))
		}
	}
	return l
}

func plain(i int) string { return fmt.Sprintf("block%d.conv", i) }

func samplePage(l *timeline.Log) *Page {
	bytes, _ := l.Source().Peak()
	return &Page{Title: "sample", Facts: []Fact{{Name: "Peak", Value: report.Size(bytes)}},
		Runs: []Run{{Name: "predicted", Timeline: l.Source(), Allocated: bytes, Reserved: bytes + 20<<20,
			Levels: []Level{{0, 20 << 20}, {10, 100 << 20}, {40, bytes + 20<<20}},
			Segments: []Segment{{1 << 30, 20 << 20, "large", []Block{{12 << 20, true, "block1.conv"}, {8 << 20, false, ""}}},
				{1 << 31, 2 << 20, "small", []Block{{1 << 20, false, ""}, {1 << 20, true, ""}}}}}}}
}

// goTo chooses what the picture goes to.
func (b *tab) goTo(t testing.TB, name string) {
	t.Helper()
	b.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const s = document.getElementById("phases"); s.value = `+
		`[...s.options].find(x => x.textContent.startsWith(%q)).value; s.dispatchEvent(new Event("change")) }`, name)))
}
