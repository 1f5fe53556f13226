// Package onnxload reads ONNX files without their weights: the graph, the types,
// and where the bytes of each constant lie.
//
// It has its own reader of protobuf's wire format, which looks at a file through
// a small window and jumps over the payloads of tensors. So the size of a file
// hardly matters: 10 GB of weights cost a jump for each tensor.
//
// A Model is what the file computes: model-local functions are inlined, names
// are resolved to values, nodes are in topological order. What is not a model, or is a
// damaged one, is refused with the place and the reason.
package onnxload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options tell Read and ReadStream what they cannot see themselves.
type Options struct {
	Path   string // for Model.Path and for errors
	Dir    string // the model's folder, for constants in files of their own; "": there is none
	Limits Limits
}

// A source is where the payloads of a model's tensors are read from.
type source struct {
	r    io.ReaderAt // nil for a stream
	size int64
	file *os.File // to close; nil when Read was given the reader
	kept []byte   // payloads: see payload
	dir  string
	lim  Limits
}

// Open reads the model at path, which may also be a pipe. The file stays open
// for constants until Close.
func Open(path string) (*Model, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, statError(path, err)
	}
	if st.IsDir() {
		return nil, fmt.Errorf("%s: %w", path, &FormatError{Format: "a folder"})
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, statError(path, err)
	}
	opts := Options{Path: path, Dir: filepath.Dir(path)}
	if !st.Mode().IsRegular() {
		defer f.Close()
		return ReadStream(f, opts)
	}
	m, err := openRegular(f, opts)
	if err != nil {
		f.Close()
		if model := modelOf(path); model != "" {
			return nil, fmt.Errorf("%s: %w", path, &FormatError{Format: "weights of " + model,
				Hint: "give " + model + " itself"})
		}
		return nil, err
	}
	m.data.file = f
	return m, nil
}

// modelOf returns the model whose weights the file at path must be, by the names
// that exporters give: model.onnx has model.onnx.data or model.onnx_data. It is ""
// when there is no such model.
func modelOf(path string) string {
	for _, suffix := range []string{".data", "_data"} {
		if model, ok := strings.CutSuffix(path, suffix); ok {
			if st, err := os.Stat(model); err == nil && st.Mode().IsRegular() {
				return model
			}
		}
	}
	return ""
}

func openRegular(f *os.File, opts Options) (*Model, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	m, err := Read(f, st.Size(), opts)
	if after, serr := f.Stat(); serr == nil && (after.Size() != st.Size() || !after.ModTime().Equal(st.ModTime())) {
		return nil, prefix(opts, fmt.Errorf("changed while being read: %d bytes of %s, now %d of %s", st.Size(),
			st.ModTime().Format(time.TimeOnly), after.Size(), after.ModTime().Format(time.TimeOnly)))
	}
	return m, err
}

// statError leaves out the name of the system call: the path comes first in all errors.
func statError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", path, pe.Err)
	}
	return err
}

// Read reads a model of size bytes from r, which must stay readable for as long
// as constants are wanted. The error is a *FormatError when the input is
// something else than an ONNX model, and a *WireError when its bytes are damaged.
func Read(r io.ReaderAt, size int64, opts Options) (*Model, error) {
	lim := opts.Limits.withDefaults()
	if size < 0 {
		return nil, prefix(opts, fmt.Errorf("size of %d bytes", size))
	}
	d := newDecoder(opts, lim)
	d.src, d.size, d.end = r, size, size
	d.buf = make([]byte, 0, min(max(size, 32), windowSize))
	m, err := d.read()
	if err != nil {
		return nil, prefix(opts, err)
	}
	m.Size = size
	m.data.r, m.data.size = r, size
	return m, nil
}

// ReadStream reads a model from a pipe. Constants are kept in memory if they are small
// enough for Ints and Floats to read; the rest of the payloads is passed over.
func ReadStream(r io.Reader, opts Options) (*Model, error) {
	lim := opts.Limits.withDefaults()
	if opts.Path == "" {
		opts.Path = "standard input"
	}
	d := newDecoder(opts, lim)
	d.stream, d.size, d.end = r, unknownSize, unknownSize
	d.buf = make([]byte, 0, windowSize)
	m, err := d.read()
	if err != nil {
		return nil, prefix(opts, err)
	}
	m.Size = d.size
	return m, nil
}

// Close closes the file that Open opened. Constants can no longer be read.
func (m *Model) Close() error {
	if m.data == nil || m.data.file == nil {
		return nil
	}
	f := m.data.file
	m.data.file = nil
	return f.Close()
}

func prefix(opts Options, err error) error {
	if opts.Path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", opts.Path, err)
}

func newDecoder(opts Options, lim Limits) *decoder {
	d := &decoder{lim: lim, seen: map[string]bool{}, beside: map[string]bool{}, odd: notes{more: map[string]int{}}}
	d.m = &Model{
		Path:     opts.Path,
		Opsets:   map[string]int64{},
		Metadata: map[string]string{},
		data:     &source{dir: opts.Dir, lim: lim},
	}
	d.maxDepth, d.limit, d.budget, d.chunk = lim.Depth, lim.Bytes, lim.Bytes, windowSize
	d.words = newTable(&d.text)
	d.names = newNames(&d.text)
	d.attrOf, d.listOf, d.typeOf = newMemo[Attr](&d.text), newMemo[[]Attr](&d.text), newMemo[*Type](&d.text)
	return d
}

// read decodes and resolves the whole input.
func (d *decoder) read() (*Model, error) {
	head := d.head()
	if d.err == nil {
		if f := sniff(head, d.size); f != nil {
			return nil, f
		}
	}
	d.model()
	if d.err != nil {
		return nil, explain(d.err, head, d.m)
	}
	if len(d.funcs) > 0 {
		d.lim.Nodes = min(d.lim.Nodes, 2*d.nodes+freeUnfolded+d.size/unfoldedBytes)
	}
	lib, err := link(d.main, d.funcs, d.subs, d.lim.Nodes)
	if err != nil {
		return nil, err
	}
	m := d.m
	n := len(d.names.strs)
	m.Values = make([]Value, 1, n) // the first is NoValue's, which no graph owns and the empty name stands for
	r := &resolver{
		m: m, lib: lib, lim: d.lim, odd: &d.odd, main: d.names, used: map[string]bool{}, calls: map[string]int{},
		owner: make([]int32, 1, n), producer: make([]int32, 1, n), number: make([]int32, 1, n),
	}
	if m.Graph, _, err = r.graph(d.main, newScope(d.names, nil), false); err != nil {
		return nil, err
	}
	if m.IRVersion > latestIR {
		d.odd.add("IR version", "IR version %d is newer than %d, the newest known: new kinds of fields are passed over",
			m.IRVersion, latestIR)
	}
	if d.unknown > 0 {
		d.odd.add("unknown fields", "%d bytes are of fields that ONNX does not define: passed over", d.unknown)
	}
	m.Notes, m.Stacks = d.odd.lines, d.stacks.frames
	return m, nil
}

// headSize is how much of the input sniff sees: the "ustar" of a tar archive is at 257.
const headSize = 4096

// head returns a copy of the input's beginning.
func (d *decoder) head() []byte {
	n := cap(d.buf)
	if d.size != unknownSize {
		n = int(min(int64(n), d.size))
	}
	end := d.end
	d.fill(min(n, headSize))
	d.end = end
	if d.size != unknownSize && d.stream != nil {
		d.end = d.size
	}
	return slices.Clone(d.buf[:min(len(d.buf), headSize)])
}

// explain turns an error of the decoder into a better one when the input's
// beginning tells what it is.
func explain(err error, head []byte, m *Model) error {
	if f := sniffFailed(head, m, err); f != nil {
		return f
	}
	if errors.Is(err, errNoGraph) {
		return &FormatError{Hint: err.Error()}
	}
	return err
}
