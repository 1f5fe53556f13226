package recording

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"
)

// A Writer writes a recording line by line. It does not look at what the lines say: Read does.
type Writer struct {
	z     *gzip.Writer
	lines int64
	err   error // the first
}

// NewWriter writes the header of a recording to w.
func NewWriter(w io.Writer, h Header) *Writer {
	if h.Format == "" {
		h.Format = Format
	}
	out := &Writer{z: gzip.NewWriter(w)}
	out.put(h)
	return out
}

// Line writes a line: its word, then its values as JSON has them.
func (w *Writer) Line(word string, values ...any) {
	w.lines++
	w.put(append([]any{word}, values...))
}

func (w *Writer) put(v any) {
	if w.err != nil {
		return
	}
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err == nil {
		_, err = w.z.Write(append(b, '\n'))
	}
	w.err = err
}

// Close writes the last line. It does not close what NewWriter was given.
func (w *Writer) Close() error {
	w.put([]any{"end", w.lines})
	if w.err != nil {
		return fmt.Errorf("write recording: %w", w.err)
	}
	return w.z.Close()
}
