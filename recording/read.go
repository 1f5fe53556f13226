package recording

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"
)

// A FormatError says at which line a file is no recording. Text has nothing of the file unquoted.
type FormatError struct {
	Line int64 // counted from 1; 0 for the file as a whole
	Text string
}

// Error gives the line and what is wrong there.
func (e *FormatError) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Text)
}

// Begins reports whether a file that begins so may be a recording: a gzip stream whose text begins with a header's
// brace.
func Begins(head []byte) bool {
	z, err := gzip.NewReader(strings.NewReader(string(head)))
	if err != nil {
		return false
	}
	start := make([]byte, len(`{"format":"memestimate-recording`))
	n, _ := io.ReadFull(z, start)
	text := strings.Map(func(r rune) rune {
		if r == ' ' || r == '\t' {
			return -1
		}
		return r
	}, string(start[:n]))
	return n > 0 && strings.HasPrefix(`{"format":"memestimate-recording`, text)
}

// Read reads a recording to its last line. Errors of the file are *FormatError.
func Read(r io.Reader) (*Recording, error) {
	in := &counter{r: bufio.NewReaderSize(r, 1<<16)}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, unpacking(err, 0)
	}
	d := &decoder{
		json:  jsontext.NewDecoder(&bounded{text: z, file: in}),
		rec:   new(Recording),
		texts: map[string]int32{},
	}
	if err := d.run(); err != nil {
		if short, ok := errors.AsType[*FormatError](err); ok {
			return nil, short
		}
		return nil, unpacking(err, d.line)
	}
	return d.rec, nil
}

// unpacking is the error for what cannot be read as gzip or JSON.
func unpacking(err error, line int64) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, errUnpacked):
		return &FormatError{line, err.Error()}
	case errors.Is(err, gzip.ErrHeader):
		return &FormatError{0, "no recording: it is not compressed with gzip"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		const cut = "the recording is cut off: its last line is missing, so the program that wrote it did not end"
		return &FormatError{line, cut}
	case errors.Is(err, gzip.ErrChecksum):
		return &FormatError{line, "the file is damaged: its checksum is another"}
	case errors.As(err, &syntax):
		return &FormatError{line, "no JSON: " + syntax.Err.Error()}
	}
	var wrong *json.SemanticError
	if errors.As(err, &wrong) {
		return &FormatError{line, fmt.Sprintf("the header's %q is of another type than wanted", string(wrong.JSONPointer))}
	}
	if strings.HasPrefix(err.Error(), "flate: ") || strings.HasPrefix(err.Error(), "gzip: ") {
		return &FormatError{line, "the file is damaged: " + err.Error()}
	}
	return err // of the reader
}

// A counter counts the bytes of the file.
type counter struct {
	r *bufio.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// ReadByte spares gzip a buffer of its own.
func (c *counter) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

var errUnpacked = errors.New("it unpacks to more text than any recording of its size")

// bounded ends the text where it is more than a recording's.
type bounded struct {
	text io.Reader
	file *counter
	n    int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.text.Read(p)
	if b.n += int64(n); b.n > maxText || b.n > slack+maxRatio*b.file.n {
		return 0, errUnpacked
	}
	return n, err
}
