//go:build builds

package web

import (
	"cmp"
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

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/chromium"
	"github.com/memestimate/memestimate/test/must"
)

// For people: go test -tags builds ./report/web -run Accessible -screenshots DIR.
var screenshots = flag.String("screenshots", "", "the folder to write screenshots to")

// built has the page, index.html, and the same program for this machine, memestimate, which all tests share.
var built string

func TestMain(m *testing.M) { os.Exit(withBuilt(m.Run)) }

func withBuilt(tests func() int) int {
	dir, err := os.MkdirTemp("", "memestimate-web")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built = dir
	builds := [][]string{{"build", "-o", filepath.Join(dir, "memestimate"), "./cmd/memestimate"}}
	if os.Getenv("MEMESTIMATE_PAGE") == "" {
		builds = append(builds, []string{"run", "./report/web/build", "-o", filepath.Join(dir, "index.html")})
	}
	for _, args := range builds {
		cmd := exec.Command("go", args...)
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %s", err, out)
			return 1
		}
	}
	return tests()
}

// A browser shows the page from disk.
type browser struct {
	t       *testing.T
	ctx     context.Context
	program string
	dir     string
}

func newBrowser(t *testing.T) *browser {
	exe := chromium.Path(t)
	b := &browser{t: t, dir: t.TempDir(), program: filepath.Join(built, "memestimate")}
	page := cmp.Or(os.Getenv("MEMESTIMATE_PAGE"), filepath.Join(built, "index.html"))
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
	must.OK(t, err)
	must.OK(t, chromedp.Do(ctx, chromedp.Navigate("file://"+page), chromedp.WaitReady("html[data-ready=yes]")))
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

// drop drops a file on the page and waits for what it says and the report that it shows, in ms milliseconds, some of
// them inside the program. The file comes through the browser's own input, and is handed on as the drag that it would
// be.
func (b *browser) drop(path string) (status, report string, ms, inside int) {
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
		const said = [document.getElementById('status').textContent, document.getElementById('picture').srcdoc];
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

// Built-in models, dropped as files, each sixth or with MEMESTIMATE_TESTS=every all: the figures are those of the
// program to the byte.
func TestModels(t *testing.T) {
	b := newBrowser(t)
	slow := 0
	for i, name := range models.Names() {
		if i%6 > 0 && os.Getenv("MEMESTIMATE_TESTS") != "every" {
			continue
		}
		data, err := models.Open(name)
		must.OK(t, err)
		path := filepath.Join(b.dir, name+".onnx")
		must.Write(t, path, data)
		status, answer, ms, inside := b.drop(path)
		if !strings.Contains(status, "answered in") || !strings.Contains(answer, "torch.cuda.max_memory_allocated()") ||
			!strings.Contains(answer, `id="plot"`) {
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
		must.OK(t, err)
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

// set changes controls, as a person does, and waits for the answer. It returns what the page says and shows.
func (b *browser) set(values map[string]string) (status, report string) {
	b.t.Helper()
	list, _ := json.Marshal(values)
	out := eval[[]string](b, fmt.Sprintf(`(async values => {
		const page = document.documentElement, picture = document.getElementById('picture');
		for (const [id, value] of Object.entries(values)) {
			const e = document.getElementById(id);
			delete page.dataset.done;
			if (e.type === 'checkbox') e.checked = value === 'on'; else e.value = value;
			e.dispatchEvent(new Event('change'));
			for (let k = 0; k < 6000 && page.dataset.done === undefined; k++) await new Promise(r => setTimeout(r, 10));
			if (page.dataset.done === undefined) return [id + ': no answer after ' + document.getElementById('status').textContent, ''];
		}
		return [document.getElementById('status').textContent, picture.hidden ? '' : picture.srcdoc];
	})(%s)`, list))
	return out[0], out[1]
}

// Each control changes the question, and the address asks it again.
func TestControls(t *testing.T) {
	b := newBrowser(t)
	for _, c := range []struct {
		values map[string]string
		status string // in what the page says
		report string // and in the report
	}{
		{map[string]string{"model": "llama_160m"}, "answered in", "llama_160m, batch 8"},
		{map[string]string{"dim": "sequence=64"}, "answered in", "sequence 64"},
		{map[string]string{"adapters": "lora", "rank": "8"}, "answered in", "LoRA r=8,targets=q_proj|v_proj|query|value"},
		{map[string]string{"adapters": "qlora"}, "record the step", ""},
		{map[string]string{"adapters": "", "checkpoint": "on"}, "answered in", "checkpoint"},
		{map[string]string{"precision": "amp-bf16"}, "answered in", "amp-bf16"},
		{map[string]string{"budget": "1GiB"}, "answered in", "Does not fit: "},
		{map[string]string{"budget": "quite little"}, "quite little", ""},
		{map[string]string{"budget": "", "gpu": "t4"}, "answered in", "Fits: "},
		{map[string]string{"dim": "", "model": "resnet18"}, "answered in", "resnet18, batch 8"},
		{map[string]string{"question": "ways"}, "answered in", "Ways to fit"},
		{map[string]string{"question": "fit"}, "is the largest that fits, ", "resnet18, batch "},
		{map[string]string{"gpu": ""}, "Choose a GPU or a budget", "resnet18, batch 8"},
	} {
		status, report := b.set(c.values)
		if !strings.Contains(status, c.status) || !strings.Contains(report, c.report) || report == "" != (c.report == "") {
			t.Errorf("%v: %s\n%.3000s", c.values, status, report)
		}
	}
	address := eval[string](b, `location.href`)
	if !strings.Contains(address, "model=resnet18") || !strings.Contains(address, "question=fit") ||
		!strings.Contains(address, "checkpoint=on") {
		t.Error(address)
	}
	_, want := b.set(map[string]string{"rank": "8"})
	// a fragment alone loads no page
	if err := chromedp.Do(b.ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(address),
		chromedp.WaitReady("html[data-done]")); err != nil {
		t.Fatal(err)
	}
	if got := eval[string](b, `document.getElementById('picture').srcdoc`); got != want {
		t.Errorf("the address %s gives another answer: %d and %d bytes", address, len(got), len(want))
	}
}

// A model that PyTorch must record gets the command that has it do so, as the controls say.
func TestConfigurations(t *testing.T) {
	b := newBrowser(t)
	if n := eval[int](b, `document.querySelectorAll('#known option').length`); n < 50 {
		t.Errorf("%d configurations, wanted 50", n)
	}
	const pip = "pip install memestimate torch transformers"
	for _, c := range []struct {
		values map[string]string
		want   string
	}{
		{map[string]string{"model": "meta-llama/Llama-3.1-8B"}, pip + "\nmemestimate meta-llama/Llama-3.1-8B"},
		{map[string]string{"adapters": "qlora", "gpu": "rtx-4090", "dim": "seq=2048"},
			pip + " peft bitsandbytes\nmemestimate meta-llama/Llama-3.1-8B --seq 2048 --qlora 16 --gpu rtx-4090"},
		{map[string]string{"adapters": "", "dim": "", "checkpoint": "on", "batch": "4", "budget": "24 GiB",
			"optimizer": "sgd"},
			pip + "\nmemestimate meta-llama/Llama-3.1-8B --batch 4 --optimizer sgd --checkpoint --gpu 24GiB"},
		{map[string]string{"budget": "$(x)'; y"}, pip + "\nmemestimate meta-llama/Llama-3.1-8B --batch 4 --optimizer sgd " +
			`--checkpoint --gpu '$(x)'\'';y'`},
	} {
		status, report := b.set(c.values)
		if got := eval[string](b, `document.getElementById('command').textContent`); got != c.want || report != "" ||
			!strings.Contains(status, "8,030,261,248 parameters") {
			t.Errorf("%v: %s\n%s\nwanted\n%s", c.values, status, got, c.want)
		}
	}
	if _, report := b.set(map[string]string{"budget": "", "model": "resnet18"}); !strings.Contains(report, "resnet18") {
		t.Errorf("a built-in model after them: %.200s", report)
	}
}

// axe-core finds nothing, nothing sticks out, and all is reached by the keyboard, whatever the width and the colours:
// on the page as it comes, with an answer, with a command, and in the report that its frame shows.
func TestAccessible(t *testing.T) {
	axe := must.Read(t, "../page/testdata/axe-core/axe.min.js")
	b := newBrowser(t)
	b.accessible(string(axe), "empty")
	b.set(map[string]string{"model": "Qwen/Qwen3-8B"})
	b.set(map[string]string{"adapters": "lora"})
	b.accessible(string(axe), "configuration")
	status, report := b.set(map[string]string{"gpu": "t4", "model": "resnet18", "targets": "fc"})
	if report == "" {
		t.Fatal(status)
	}
	b.accessible(string(axe), "answer")
	if high := eval[int](b, `document.getElementById('picture').offsetHeight`); high < 900 || high > 20_000 {
		t.Errorf("the frame is %d pixels high: it makes no room for the report", high)
	}
	b.set(map[string]string{"model": "Qwen/Qwen3-8B"})
	reached := map[string]bool{}
	eval[bool](b, `document.activeElement.blur(); true`)
	for range 30 {
		must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent("\t")))
		reached[eval[string](b, `document.activeElement.id`)] = true
	}
	for _, id := range []string{"file", "model", "batch", "precision", "checkpoint", "adapters", "rank", "gpu", "budget",
		"question", "copy"} {
		if !reached[id] {
			t.Errorf("the key Tab does not reach %s", id)
		}
	}
	file := filepath.Join(b.dir, "report.html")
	must.Write(t, file, []byte(report))
	must.OK(t, chromedp.Do(b.ctx, chromedp.Navigate("file://"+file), chromedp.WaitReady("html[data-ready=yes]")))
	b.accessible(string(axe), "report")
}

// accessible has axe-core look at what the browser shows at both widths, in both colours.
func (b *browser) accessible(axe, name string) {
	b.t.Helper()
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
				b.t.Fatal(err)
			}
			if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 5000)); err != nil { // high, for pictures of the frame
				b.t.Fatal(err)
			}
			eval[bool](b, axe+"; true")
			found := eval[[]string](b, `axe.run({ iframes: false }).then(r => r.passes.length < 10 ? ["axe has tried " + `+
				`r.passes.length + " rules"] : r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + `+
				`n.html.slice(0, 200) + " " + n.failureSummary)))`)
			for _, f := range found {
				b.t.Errorf("%s, %d pixels, %s: %s", name, width, scheme, f)
			}
			if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > int(width) {
				b.t.Errorf("%s is %d pixels wide, wanted %d", name, wide, width)
			}
			if *screenshots == "" {
				continue
			}
			time.Sleep(time.Second) // the picture draws itself in its frame
			png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			if err != nil {
				b.t.Fatal(err)
			}
			file := filepath.Join(*screenshots, fmt.Sprintf("web-%s-%d-%s.png", name, width, scheme))
			if err := os.WriteFile(file, png, 0o666); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}
