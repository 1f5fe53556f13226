//go:build builds

package web

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/chromium"
)

var screenshots = flag.String("screenshots", "", "the folder to write screenshots to")

// A browser shows the page from disk.
type browser struct {
	t       *testing.T
	ctx     context.Context
	program string // the same program for this machine
	dir     string
}

func newBrowser(t *testing.T) *browser {
	exe := chromium.Path(t)
	b := &browser{t: t, dir: t.TempDir()}
	page := os.Getenv("MEMESTIMATE_PAGE") // one that is built already
	if page == "" {
		page = filepath.Join(b.dir, "index.html")
		build := exec.Command("go", "run", "./report/web/build", "-o", page)
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	b.program = filepath.Join(b.dir, "memestimate")
	if out, err := exec.Command("go", "build", "-o", b.program, "../../cmd/memestimate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(exe), chromedp.NoSandbox,
		chromedp.WindowSize(1200, 900))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	b.ctx = ctx
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page: %s %v", ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception)
		case *log.EventEntryAdded:
			t.Errorf("the page: %s", ev.Entry.Text)
		case *network.EventRequestWillBeSent:
			if u := ev.Request.URL; !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "blob:") &&
				!strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "about:") {
				t.Errorf("the page asks the network for %s", u)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("file://"+page), chromedp.WaitReady("html[data-ready=yes]")); err != nil {
		t.Fatal(err)
	}
	return b
}

// eval runs an expression in the page, which may be a promise.
func eval[T any](b *browser, js string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", js, err)
	}
	return v
}

// drop drops a file on the page and waits for what it says, in ms milliseconds, some of them inside the program. The
// file comes through the browser's own input, and is handed on as the drag that it would be.
func (b *browser) drop(path string) (status, answer string, ms, inside int) {
	b.t.Helper()
	eval[bool](b, `delete document.documentElement.dataset.done`)
	eval[string](b, `document.getElementById('file').value = ''`) // as a click does before a file is chosen
	if err := chromedp.Do(b.ctx, chromedp.SetUploadFiles("#file", []string{path})); err != nil {
		b.t.Fatal(err)
	}
	out := eval[[]string](b, `(async () => {
		const page = document.documentElement, file = document.getElementById('file').files[0], drag = new DataTransfer();
		while (page.dataset.done === undefined) await new Promise(r => setTimeout(r, 10)); // the input itself asks, too
		delete page.dataset.done;
		page.dataset.ms = '';
		drag.items.add(file);
		dispatchEvent(new DragEvent('drop', { dataTransfer: drag }));
		for (let k = 0; k < 6000 && (page.dataset.done === undefined || document.getElementById('status').textContent.startsWith('Estimating')); k++) await new Promise(r => setTimeout(r, 10));
		const said = ['status', 'answer'].map(id => document.getElementById(id).textContent);
		return [...said, page.dataset.ms, page.dataset.inside || ''];
	})()`)
	ms, _ = strconv.Atoi(out[2])
	inside, _ = strconv.Atoi(out[3])
	return out[0], out[1], ms, inside
}

// ask runs the program in the page.
func (b *browser) ask(args []string, path string) (stdout, stderr string, code int) {
	b.t.Helper()
	list, _ := json.Marshal(args)
	type result struct {
		Code           int
		Stdout, Stderr string
	}
	out := eval[result](b, fmt.Sprintf(`(async () => {
		const f = document.getElementById('file').files[0];
		const o = await memestimate(%s, new Uint8Array(await f.arrayBuffer()), %q);
		return { Code: o.code, Stdout: o.stdout, Stderr: o.stderr };
	})()`, list, filepath.Base(path)))
	return out.Stdout, out.Stderr, out.Code
}

// Every built-in model, dropped as a file: the figures are those of the program to the byte.
func TestModels(t *testing.T) {
	b := newBrowser(t)
	slow := 0
	for _, name := range models.Names() {
		data, err := models.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(b.dir, name+".onnx")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		status, answer, ms, inside := b.drop(path)
		if !strings.Contains(status, "answered in") || !strings.Contains(answer, "torch.cuda.max_memory_allocated()") {
			t.Errorf("%s: %s\n%s", name, status, answer)
			continue
		}
		t.Logf("%s: %d ms, %d of them in the program", name, ms, inside)
		if ms > 500 {
			slow++
		}
		args := []string{"-", "--format", "json", "--batch", "8"}
		if name == "conv_example" {
			args = args[:3]
		}
		b.same(args, path)
	}
	t.Logf("%d of %d take more than half a second", slow, len(models.Names()))
}

// Files that are no models, or bad ones, get the program's line, and the page goes on.
func TestHostileFiles(t *testing.T) {
	b := newBrowser(t)
	var files []string
	for _, glob := range []string{"../../onnxload/testdata/*.onnx", "../../onnxload/testdata/fuzz/*/*",
		"../../onnxload/testdata/hostile/*"} {
		found, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) > 80 {
		files = files[:80]
	}
	for _, f := range files {
		path, _ := filepath.Abs(f)
		status, _, _, _ := b.drop(path)
		if status == "" || strings.Contains(status, "Estimating") {
			t.Errorf("%s: %q", f, status)
		}
	}
	t.Logf("%d files", len(files))
	good, _ := filepath.Abs("../../snapshot/testdata/resnet50_seed.pickle.gz")
	if status, answer, _, _ := b.drop(good); !strings.Contains(status, "answered in") || answer == "" {
		t.Errorf("a snapshot after them: %s", status)
	}
}

// Recordings and snapshots are files that the page takes, too: what it shows is what the program prints.
func TestOtherFiles(t *testing.T) {
	b := newBrowser(t)
	recordings, err := filepath.Glob("../../recording/testdata/*.mrec")
	if err != nil || len(recordings) < 3 {
		t.Fatalf("%d recordings: %v", len(recordings), err)
	}
	for _, f := range recordings[:3] {
		path, _ := filepath.Abs(f)
		status, answer, _, _ := b.drop(path)
		if !strings.Contains(status, "answered in") || !strings.Contains(answer, "nvidia-smi") {
			t.Errorf("%s: %s\n%s", f, status, answer)
		}
		b.same([]string{"-", "--format", "json"}, path)
	}
	for _, name := range []string{"resnet50_seed.pickle.gz", "mem_track_0.pickle.gz", "mem_track_3_more.pickle.gz"} {
		path, _ := filepath.Abs(filepath.Join("..", "..", "snapshot", "testdata", name))
		if status, answer, _, _ := b.drop(path); !strings.Contains(status, "answered in") || answer == "" {
			t.Errorf("%s: %s\n%s", name, status, answer)
		}
		b.same([]string{"snapshot", "show", "-", "--format", "json"}, path)
	}
}

// same holds what the program says in the page to what it says on this machine.
func (b *browser) same(args []string, path string) {
	b.t.Helper()
	got, stderr, code := b.ask(args, path)
	in, err := os.Open(path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer in.Close()
	c := exec.Command(b.program, args...)
	c.Stdin = in
	want, err := c.Output()
	if err != nil || code != 0 || strings.Replace(got, strconv.Quote(filepath.Base(path)), `"standard input"`,
		1) != string(want) {
		b.t.Errorf("%s: other figures than the program's: %v, exit code %d (%s), %d and %d bytes", filepath.Base(path), err,
			code, stderr, len(got), len(want))
	}
}

// Screenshots are for people: go test -tags builds ./report/web -run Screenshots -screenshots DIR.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("-screenshots is not given")
	}
	b := newBrowser(t)
	for _, size := range []int64{1200, 390} {
		for _, scheme := range []string{"light", "dark"} {
			if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(size, 2000)); err != nil {
				t.Fatal(err)
			}
			eval[bool](b, fmt.Sprintf(`(document.documentElement.style.colorScheme = %q) !== ''`, scheme))
			path, _ := filepath.Abs("../../snapshot/testdata/resnet50_seed.pickle.gz")
			if size == 1200 {
				data, err := models.Open("resnet50")
				if err != nil {
					t.Fatal(err)
				}
				path = filepath.Join(b.dir, "resnet50.onnx")
				if err := os.WriteFile(path, data, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			b.drop(path)
			time.Sleep(time.Second) // the picture draws itself in its frame, which must be in sight
			png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(*screenshots, fmt.Sprintf("web-%d-%s.png", size, scheme))
			if err := os.WriteFile(name, png, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}
