package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/race"
)

// What the program may take: so many bytes, and for each byte of the file. test/catalogue.md promises it.
const (
	memoryBase   = 64_000_000
	memoryFactor = 24
	// aloneEnv marks the process of a test that measures what its own process takes.
	aloneEnv = "MEMESTIMATE_TEST_ALONE"
	// No command of the catalogue works for longer on one of its files.
	longestWork = 30 * time.Second
)

// catalogueCommands is every command that reads a model, in every form. MODEL is the hostile file, HONEST another,
// BUDGET a budget file that names it, and RECORDED a recording.
var catalogueCommands = func() (all [][]string) {
	for _, c := range []struct{ args, formats string }{
		{"MODEL", "text markdown csv json html modelsize"},
		{"MODEL --what-if", "text markdown json html"}, {"MODEL --strict --stats --full", "text json"},
		{"MODEL --mode infer --precision fp16 --channels-last", "text json"},
		{"MODEL --snapshot SNAPSHOT --loss mse --precision amp-bf16", "text"},
		{"MODEL --gpu t4 --ways", "text json"},
		{"table MODEL", "text markdown csv json"}, {"table MODEL --columns layer,saved", "text"},
		{"fit MODEL --gpu t4", "text markdown csv json"},
		{"diff HONEST MODEL", "text markdown csv json"}, {"diff MODEL HONEST", "text"},
		{"compare MODEL RECORDED", "text markdown json"},
		{"check --config BUDGET", "text markdown csv json"},
	} {
		for f := range strings.FieldsSeq(c.formats) {
			all = append(all, append(strings.Fields(c.args), "--format", f))
		}
	}
	return all
}()

// everyForm has TestCatalogue give every file to every form: five minutes on two cores. Without it a small file meets
// every 24th and a large one every 48th, in turn, so that each form meets six files or so.
var everyForm = flag.Bool("catalogue.every", false, "every file of the catalogue in every form")

// calledOften is a model whose function has a text of many bytes and is called many times.
func calledOften(text, calls int) []byte {
	g := Graph{In: []Value{Float("v0", 1)}, Out: []Value{{Name: fmt.Sprint("v", calls)}}}
	for i := range calls {
		g.Nodes = append(g.Nodes, Op("f", fmt.Sprint("v", i), fmt.Sprint("v", i+1)).Of("l"))
	}
	return Model{Opset: 17, Opsets: []Import{Domain("l", 1)}, Graph: g, Functions: []Function{{
		Domain: "l", Name: "f", In: []string{"a"}, Out: []string{"b"}, Opsets: []Import{Domain("", 17)},
		Nodes: []Node{Op("Neg", "a", "b", A("text", strings.Repeat("t", text)))},
	}}}.Bytes()
}

// largeFiles are those of the catalogue that try to be expensive.
func largeFiles() []HostileCase {
	many := func(n int, op string, name string) []byte {
		g := Graph{In: []Value{Float("x0", 4)}, Out: []Value{{Name: fmt.Sprint("x", n)}}}
		for i := range n {
			g.Nodes = append(g.Nodes, Op(op, fmt.Sprint("x", i), fmt.Sprint("x", i+1)).Named(name))
		}
		return Model{Opset: 17, Graph: g}.Bytes()
	}
	attributes := Op("Neg", "x", "y")
	for i := range 300_000 {
		attributes.Attrs = append(attributes.Attrs, A(fmt.Sprint("a", i), int64(i)))
	}
	wide := Graph{In: []Value{Float("x", 1<<20)}, Out: []Value{{Name: "y0"}}}
	var outs []string
	for i := range 50_000 {
		outs = append(outs, fmt.Sprint("y", i))
	}
	wide.Nodes = []Node{Op("Split", "x", strings.Join(outs, " "), A("axis", int64(0)))}
	all, sums := "x0", Graph{In: []Value{Float("x0", 4)}, Out: []Value{{Name: "x800"}}}
	for i := range 800 {
		x := fmt.Sprint("x", i+1)
		sums.Nodes = append(sums.Nodes, Op("Sum", all, x))
		all += " " + x
	}
	splits := Graph{In: []Value{Float("x0", 2000)}, Out: []Value{{Name: "x60"}}}
	for i := range 60 {
		var parts []string
		for k := range 2000 {
			parts = append(parts, fmt.Sprintf("p%d_%d", i, k))
		}
		list := strings.Join(parts, " ")
		splits.Nodes = append(splits.Nodes, Op("Split", fmt.Sprint("x", i), list, A("axis", int64(0))),
			Op("Concat", list, fmt.Sprint("x", i+1), A("axis", int64(0))))
	}
	joined := Graph{In: []Value{Float("x0", 20)}, Out: []Value{{Name: "x6000"}}}
	for i := range 6000 {
		var parts []string
		for k := range 20 {
			parts = append(parts, fmt.Sprintf("p%d_%d", i, k))
		}
		list := strings.Join(parts, " ")
		joined.Nodes = append(joined.Nodes, Op("Split", fmt.Sprint("x", i), list, A("axis", int64(0))),
			Op("Concat", list, fmt.Sprint("x", i+1), A("axis", int64(0))))
	}
	// weighted is a chain of n nodes with a weight each.
	weighted := func(n int, op string, in Value, weight []int64, attrs ...Attr) []byte {
		g := Graph{In: []Value{in}, Out: []Value{{Name: fmt.Sprint("x", n)}}}
		for i := range n {
			g.Inits = append(g.Inits, Bare(fmt.Sprint("w", i), onnxload.Float32, weight...))
			g.Nodes = append(g.Nodes, Op(op, fmt.Sprintf("x%d w%d", i, i), fmt.Sprint("x", i+1), attrs...))
		}
		return Model{Opset: 17, Graph: g}.Bytes()
	}
	inputs := Graph{Out: []Value{{Name: "y"}}, Nodes: []Node{Op("Neg", "x0", "y")}}
	for i := range 100_000 {
		inputs.In = append(inputs.In, Float(fmt.Sprint("x", i), 1))
	}
	var weights []Tensor
	for i := range 50_000 {
		weights = append(weights, Bare(fmt.Sprint("w", i), onnxload.Float32, 1))
	}
	loop := Graph{In: []Value{Val("i", onnxload.Int64), Val("c", onnxload.Bool), Float("s", 4)},
		Nodes: []Node{Op("Neg", "s", "t"), Op("Identity", "c", "d")}, Out: []Value{{Name: "d"}, {Name: "t"}}}
	return []HostileCase{
		{Name: "A20 40,000 copies of views upon views", File: copiesOfViews(40_000)},
		{Name: "A20 chain of 19,000 nodes", File: many(19_000, "Relu", "")},
		{Name: "A20 chain of 25,000 nodes", File: many(25_000, "Sigmoid", "")},
		{Name: "A20 chain of 100,000 nodes", File: many(100_000, "Sigmoid", "")},
		{Name: "A20 30,000 nodes with a weight each", File: weighted(30_000, "Mul", Float("x0", 4), []int64{4})},
		{Name: "A20 50,000 nodes with a weight each", File: weighted(50_000, "Mul", Float("x0", 4), []int64{4})},
		{Name: "A20 30,000 convolutions", File: weighted(30_000, "Conv", Float("x0", 1, 4, 8, 8), []int64{4, 4, 1, 1})},
		{Name: "A20 10,000 Einsums that contract",
			File: weighted(10_000, "Einsum", Float("x0", 4, 4), []int64{4, 4}, A("equation", "ij,jk->ik"))},
		{Name: "A20 100,000 inputs", File: Model{Opset: 17, Graph: inputs}.Bytes()},
		{Name: "A20 6,000 tensors in 20 parts each", File: Model{Opset: 17, Graph: joined}.Bytes()},
		{Name: "A20 60 tensors in 2,000 parts each", File: Model{Opset: 17, Graph: splits}.Bytes()},
		{Name: "A20 nodes of one name", File: many(21_000, "Exp", strings.Repeat("/a.b", 20))},
		{Name: "A20 nodes nobody knows", File: many(21_000, "Unheard", "")},
		{Name: "A32 text in a function called often", File: calledOften(1<<18, 2000)},
		{Name: "A34 300,000 attributes",
			File: Model{Graph: Graph{In: []Value{Float("x", 1)}, Nodes: []Node{attributes}}}.Bytes()},
		{Name: "A20 sums of all before", File: Model{Opset: 17, Graph: sums}.Bytes()},
		{Name: "A48 a tensor in 50,000 parts", File: Model{Opset: 17, Graph: wide}.Bytes()},
		{Name: "A27 50,000 weights", File: WithInit(weights...).Bytes()},
		{Name: "A31 a loop of 10^6 turns",
			File: Model{Opset: 17, Graph: Graph{In: []Value{Float("x", 4)}, Out: []Value{{Name: "y"}},
				Inits: []Tensor{{Name: "n", DType: onnxload.Int64, Typed: []int64{1_000_000}},
					{Name: "c", DType: onnxload.Bool, Typed: []int32{1}}},
				Nodes: []Node{Op("Loop", "n c x", "y", A("body", loop))}}}.Bytes()},
		{Name: "A57 names of 300 bytes", File: hostileNetwork(3000, 64)},
	}
}

// hostileFiles is the catalogue as files in a folder: what packages onnxload and estimate hold of it, and what tries to
// be expensive.
func hostileFiles(t *testing.T) (names []string, files map[string][]byte) {
	t.Helper()
	files = map[string][]byte{}
	for _, c := range slices.Concat(Hostile(), largeFiles()) {
		files[c.Name] = c.File
		names = append(names, c.Name)
	}
	odd, err := filepath.Glob("../../estimate/testdata/odd/*.onnx")
	if err != nil || len(odd) < 19 {
		t.Fatalf("%d odd files: %v", len(odd), err)
	}
	for _, path := range odd {
		data := must.Read(t, path)
		files[filepath.Base(path)] = data
		names = append(names, filepath.Base(path))
	}
	return names, files
}

// Every hostile file goes through the commands in their forms: an answer that is what its form promises, or one line,
// soon, in memory bounded by the file's size, the same each time, and nothing in it that acts on who reads it.
func TestCatalogue(t *testing.T) {
	if told := os.Getenv(aloneEnv); told != "" {
		catalogueAlone(t, told)
		return
	}
	const small, groups = 64 << 10, 16
	dir, program := t.TempDir(), os.Getenv(programEnv)
	names, files := hostileFiles(t)
	for i, name := range names {
		write(t, filepath.Join(dir, strconv.Itoa(i), "model.onnx"), string(files[name]))
	}
	one := func(t *testing.T, program string, which ...string) {
		t.Parallel()
		cmd := exec.Command(os.Args[0], "-test.run=^TestCatalogue$", "-test.v",
			"-catalogue.every="+strconv.FormatBool(*everyForm))
		cmd.Env = append(os.Environ(), aloneEnv+"="+program+string(filepath.ListSeparator)+strings.Join(which, ":"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %.6000s", err, out)
		}
	}
	var together [groups][]string
	for i, name := range names {
		path := filepath.Join(dir, strconv.Itoa(i))
		if len(files[name]) < small {
			together[i%groups] = append(together[i%groups], path)
		} else {
			t.Run(name, func(t *testing.T) { one(t, program, path) })
		}
	}
	for i, which := range together {
		t.Run(fmt.Sprint("small files ", i), func(t *testing.T) { one(t, "", which...) })
	}
}

// catalogueAlone is TestCatalogue in a process that holds nothing but what the commands make it hold.
func catalogueAlone(t *testing.T, told string) {
	list := filepath.SplitList(told)
	c := newCatalogued(t, list[0])
	for _, path := range list[1:] {
		c.file(t, path)
	}
}

// catalogued is where the commands of a catalogue run.
type catalogued struct {
	dir     string
	program string        // "" where commands run in this process
	most    int64         // bytes of memory that a process has taken
	took    time.Duration // how long a command has worked: a program's processor time, to which no other process adds
}

func newCatalogued(t *testing.T, program string) *catalogued {
	c := &catalogued{dir: t.TempDir(), program: program}
	if program == "" {
		newHeap()
	}
	honest, err := models.Open("conv_example")
	must.OK(t, err)
	recording := must.Read(t, filepath.Join(recorded, "odd", "oomfrag.pickle"))
	write(t, filepath.Join(c.dir, "honest.onnx"), string(honest))
	write(t, filepath.Join(c.dir, "recorded.pickle"), string(recording))
	return c
}

// file gives the file in a folder to every command.
func (c *catalogued) file(t *testing.T, dir string) {
	model := filepath.Join(dir, "model.onnx")
	st, err := os.Stat(model)
	must.OK(t, err)
	name := filepath.Base(dir)
	var sizes []string
	worst, bound := int64(0), memoryBase+memoryFactor*st.Size()
	if out, errs, code := c.run(t, "table", model); code == exitUsage {
		if sizes = []string{"--batch", "2"}; strings.Contains(errs+out, "batch of") {
			sizes = nil
		}
	}
	write(t, filepath.Join(dir, "budget.yaml"), "models: [model.onnx]\nlimits: {parameters: 1GiB}\n")
	turn, err := strconv.Atoi(name)
	must.OK(t, err)
	every := 24
	if c.program != "" {
		every = 48
	}
	for i, args := range catalogueCommands {
		if !*everyForm && (i+turn)%every != 0 {
			continue
		}
		args = slices.Clone(args)
		for i, a := range args {
			switch a {
			case "MODEL":
				args[i] = model
			case "HONEST":
				args[i] = filepath.Join(c.dir, "honest.onnx")
			case "RECORDED":
				args[i] = filepath.Join(c.dir, "recorded.pickle")
			case "BUDGET":
				args[i] = filepath.Join(dir, "budget.yaml")
			case "SNAPSHOT":
				args[i] = filepath.Join(c.dir, "snapshot.pickle")
			}
		}
		if args[0] != "check" && args[0] != "fit" {
			args = append(args, sizes...)
		}
		c.forget(t)
		out, errs, code := c.run(t, args...)
		limit := longestWork
		if race.Enabled { // the detector makes a program 2 to 20 times as slow
			limit *= 20
		}
		if c.took > limit {
			t.Errorf("%s: %q took %v, want at most %v", name, args, c.took, limit)
		}
		worst = max(worst, c.most)
		if c.most > bound && !race.Enabled { // the detector takes memory of its own
			t.Errorf("%s: %q took %d MB, want at most %d", name, args, c.most/1e6, bound/1e6)
		}
		c.look(t, fmt.Sprintf("%s: %q", name, args), args, out, errs, code)
	}
	t.Logf("%s: %d MB of %d", name, worst/1e6, bound/1e6)
}

// forget has the system count anew what this process takes: a process that it starts is told to have taken as much.
func (c *catalogued) forget(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil && runtime.GOOS == "linux" {
		t.Log(err) // a container may not let us: then the figures are those of the worst before
	}
}

// run runs a command, and finds what memory it took.
func (c *catalogued) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	if c.program == "" {
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
		start := time.Now()
		code = run(context.Background(), e, args)
		c.took, c.most = time.Since(start), mostResident(t)
		return out.String(), errs.String(), code
	}
	cmd := exec.Command(c.program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	c.took = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	c.most = mostResidentOf(cmd.ProcessState)
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// look holds what a command said against what its form promises.
func (c *catalogued) look(t *testing.T, what string, args []string, out, errs string, code int) {
	format := args[slices.Index(args, "--format")+1]
	switch code {
	case exitOK, exitNo:
		if out == "" {
			t.Errorf("%s: code %d and nothing", what, code)
		}
	case exitUsage, exitInput:
		reported := format == "html" || args[0] == "check" || slices.Contains(args, "--strict") ||
			slices.Contains(args, "--snapshot") || format == "json"
		if errs == "" || out != "" && !reported {
			t.Errorf("%s: code %d, %.200q, %.200q", what, code, out, errs)
		}
	default:
		t.Errorf("%s: code %d: %.400q", what, code, errs)
	}
	for line := range strings.Lines(errs) {
		if !strings.HasPrefix(line, "memestimate: ") && format != "json" || len(line) > 10_000 {
			t.Errorf("%s: says %.200q", what, line)
		}
	}
	if at := actsOnTerminals(errs); at >= 0 {
		t.Errorf("%s: stderr acts: %q", what, errs[max(0, at-40):min(len(errs), at+40)])
	}
	if at := actsOnTerminals(out); at >= 0 {
		t.Errorf("%s: stdout acts: %q", what, out[max(0, at-40):min(len(out), at+40)])
	}
	if out == "" {
		return
	}
	switch format {
	case "json":
		if !json.Valid([]byte(out)) {
			t.Errorf("%s: no JSON: %.300s", what, out)
		}
	case "csv":
		if _, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil {
			t.Errorf("%s: no CSV: %v", what, err)
		}
	case "markdown":
		harmless(t, out)
	case "html":
		if n := strings.Count(out, "<script"); n != strings.Count(out, "</script>") || n > 5 {
			t.Errorf("%s: %d scripts, %d ends of one", what, n, strings.Count(out, "</script>"))
		}
	}
	if format == "json" && code == exitOK && c.program == "" {
		if again, _, _ := c.run(t, args...); again != out {
			t.Errorf("%s: another answer the second time", what)
		}
	}
}
