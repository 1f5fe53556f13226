package report

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
)

// Layers returns the table of a report's layers. With exact, sizes are bytes and
// numbers have no separators, for programs; else a column has one unit.
func Layers(r *estimate.Report, exact bool) *Grid {
	if exact {
		return layersExact(r)
	}
	names := []string{"index", "layer", "operator", "output", "parameters", "activation"}
	if saves(r) {
		names = append(names, "saved")
	}
	g, _ := Table(r, names, false) // all of which there are
	return g
}

// withLoss lists the layers, and after them the criterion as one when it keeps something for backward: the column of
// what is saved then adds up to its total.
func withLoss(r *estimate.Report) iter.Seq[*module.Layer] {
	return func(yield func(*module.Layer) bool) {
		for i := range r.Layers {
			if !yield(&r.Layers[i]) {
				return
			}
		}
		if r.Activations.LossSaved != 0 {
			yield(&module.Layer{Index: r.Model.Nodes, Name: "loss", Op: r.Settings.Loss, SavedBytes: r.Activations.LossSaved})
		}
	}
}

// layerName is the module of a layer, or the name of its node when it is a step of a larger
// module or of none.
func layerName(l *module.Layer) string {
	if l.Module != "" && l.Nodes == 1 && strings.HasSuffix(l.Name, "/"+l.Op) {
		return l.Module // TorchScript: "/layer1/layer1.0/conv1/Conv"
	}
	if l.Module != "" && l.Module != l.Name {
		if strings.HasPrefix(l.Name, "/") {
			return l.Module + l.Name[strings.LastIndexByte(l.Name, '/'):]
		}
		return l.Module
	}
	return l.Name
}

// Outputs writes the shapes of a layer's outputs: three at most, for a Split may
// have thousands.
func Outputs(l *module.Layer) string {
	var parts []string
	for i, t := range l.Outputs {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("... %d more", len(l.Outputs)-i))
			break
		}
		parts = append(parts, dims(t))
	}
	return strings.Join(parts, " ")
}

func dims(t module.Tensor) string {
	if t.Shape == nil {
		return "?"
	}
	sizes := make([]string, len(t.Shape))
	for i, n := range t.Shape {
		sizes[i] = strconv.FormatInt(n, 10)
	}
	return "[" + strings.Join(sizes, ", ") + "]"
}

func layersExact(r *estimate.Report) *Grid {
	g := &Grid{Columns: []Column{{Title: "index"}, {Title: "name", File: true}, {Title: "op", File: true},
		{Title: "module", File: true}, {Title: "nodes"}, {Title: "outputs"}, {Title: "dtypes"}, {Title: "parameters"},
		{Title: "parameter_bytes"}, {Title: "activation_bytes"}, {Title: "in_place"}, {Title: "saved_bytes"}}}
	for l := range withLoss(r) {
		shapes, types := make([]string, len(l.Outputs)), make([]string, len(l.Outputs))
		for i, t := range l.Outputs {
			shapes[i], types[i] = "?", t.DType
			if t.Shape != nil {
				shapes[i] = strings.ReplaceAll(strings.Trim(dims(t), "[]"), ", ", "x")
			}
		}
		g.Rows = append(g.Rows, []string{strconv.Itoa(l.Index), l.Name, l.Op, l.Module, strconv.Itoa(l.Nodes),
			strings.Join(shapes, " "), strings.Join(types, " "), exactUnit.count(l.Params), exactUnit.size(l.ParamBytes),
			exactUnit.size(l.Activation), strconv.FormatBool(l.InPlace), exactUnit.size(l.SavedBytes)})
	}
	return g
}

// Summary returns a report's totals.
func Summary(r *estimate.Report) *Grid {
	lower := ""
	if !r.Coverage.Complete() {
		lower = ">= "
	}
	g := &Grid{Columns: []Column{{Title: "what"}, {Title: "size", Right: true}, {Title: "of"}}}
	row := func(what, sign string, bytes int64, of string) {
		g.Rows = append(g.Rows, []string{what, sign + Size(bytes), of})
	}
	row("parameters", "", r.Parameters.Bytes, fmt.Sprintf("%s in %s", Count(r.Parameters.Count),
		Plural(r.Parameters.Tensors, "tensor")))
	row("buffers", "", r.Buffers.Bytes, fmt.Sprintf("%s in %s", Count(r.Buffers.Count), Plural(r.Buffers.Tensors, "tensor")))
	row("activations", lower, r.Activations.Forward, "without backward: the outputs of all layers")
	row("activations", lower, r.Activations.WithBackward, "with backward: each with its gradient")
	if r.Activations.Saved > 0 {
		row("saved", "", r.Activations.Saved, "what autograd keeps from forward to backward")
	}
	return g
}

// Plural counts things: "1 tensor", "2 tensors".
func Plural[T int | int64](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Count(int64(n)) + " " + what + "s"
}

// title says what was estimated, in one line whose names are safe.
func title(r *estimate.Report) string {
	parts := []string{fmt.Sprintf("%s nodes", Count(int64(r.Model.Nodes)))}
	if v, ok := r.Model.Opsets[""]; ok {
		parts = append(parts, fmt.Sprintf("opset %d", v))
	}
	if r.Model.Producer != "" {
		words := strings.Fields(r.Model.Producer)
		for i, word := range words {
			words[i] = Show(word, nameWidth)
		}
		parts = append(parts, strings.Join(words, " "))
	}
	for i, in := range r.Model.Inputs {
		if i == 4 {
			parts = append(parts, fmt.Sprintf("%d more inputs", len(r.Model.Inputs)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s = %s%s", Show(in.Name, nameWidth), in.DType, dims(in)))
	}
	return strings.Join(parts, ", ")
}

// Text writes a report for a terminal: the layers first, so that the totals are
// what remains on the screen. For width see Grid.Text.
func Text(w io.Writer, r *estimate.Report, width int) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "model %s: %s\n", Show(r.Model.Name, nameWidth), title(r))
	if r.Peak != nil {
		for _, s := range sentences(r) {
			fmt.Fprintln(b, s)
		}
	}
	fmt.Fprintln(b)
	Layers(r, false).Text(b, width)
	fmt.Fprintln(b)
	for _, row := range Summary(r).Rows {
		fmt.Fprintf(b, "%-12s %14s   %s\n", row[0], row[1], row[2])
	}
	for _, g := range peakGrids(r) {
		fmt.Fprintln(b)
		g.Text(b, width)
	}
	if r.Peak != nil {
		fmt.Fprintln(b)
	}
	for _, v := range verdicts(r) {
		fmt.Fprintln(b, v)
	}
	Notes(b, r.Notes)
	return b.Flush() // with the first error of all
}

// shownLive is how many of the largest tensors at the peak a report for people shows.
const shownLive = 8

// peakGrids are the tables about the run, the breakdown last: it is what to remember.
func peakGrids(r *estimate.Report) (gs []*Grid) {
	if r.Peak == nil {
		return nil
	}
	if len(r.Stats) > 0 {
		gs = append(gs, Statistics(r))
	}
	gs = append(gs, Phases(r), LiveTensors(r, shownLive))
	if g := Guesses(r); len(g.Rows) > 0 {
		gs = append(gs, g)
	}
	if len(r.WhatIf) > 0 {
		gs = append(gs, WhatIf(r))
	}
	if len(r.Ways) > 0 {
		gs = append(gs, Ways(r))
	}
	return append(gs, Breakdown(r))
}

// AskedGrids are the tables that a report has because they were asked for, but for what WhatIfText writes.
func AskedGrids(r *estimate.Report) (gs []*Grid) {
	if len(r.Stats) > 0 {
		gs = append(gs, Statistics(r))
	}
	if len(r.Ways) > 0 {
		gs = append(gs, Ways(r))
	}
	return gs
}

func noteWord(level string) string {
	if level == estimate.Warning {
		return "warning"
	}
	return "note"
}

// oneLine keeps a note on its line whatever is in it.
func oneLine(s string) string { return Clean(strings.ReplaceAll(s, "\n", " ")) }

// shownLayers is how many of the largest layers a Markdown report shows unfolded.
const shownLayers = 10

// CSV writes a report's layers, with sizes in bytes.
func CSV(w io.Writer, r *estimate.Report) error { return Layers(r, true).CSV(w) }

// JSON writes a value as all JSON of this program is written: as encoding/json indents it, but as it comes.
// encoding/json holds all of it twice before a byte is written, and a report of a large graph has tens of megabytes.
func JSON(w io.Writer, v any) error {
	err := json.MarshalWrite(w, v, jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.WithIndent("  "))
	if err == nil {
		_, err = io.WriteString(w, "\n")
	}
	return err
}

// identifier is what a class of PyTorch can be called. Like every expression and template here it is compiled when it
// is needed: together they would take half a millisecond of each start.
var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`) })

// graphNames are what exporters call every graph.
var graphNames = map[string]bool{"main_graph": true, "torch_jit": true, "main": true, "graph": true}

// ModelSize writes the three lines of Pytorch-Memory-Utils' modelsize_estimate, to the
// letter: M is a million bytes.
func ModelSize(w io.Writer, r *estimate.Report) error {
	name := Show(r.Model.Name, nameWidth)
	if g := r.Model.Graph; identifier().MatchString(g) && !graphNames[g] {
		name = g
	}
	_, err := fmt.Fprintf(w, "Model %s : params: %fM\nModel %s : intermedite variables: %f M (without backward)\nModel "+
		"%s : intermedite variables: %f M (with backward)\n",
		name, float64(r.Parameters.Bytes)/1e6, name, float64(r.Activations.Forward)/1e6, name,
		float64(r.Activations.WithBackward)/1e6)
	return err
}
