package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// An input is a window on the pickle's bytes. Opcodes and their fixed operands
// are read from the window; need makes sure they are in it.
type input struct {
	r    io.Reader
	buf  []byte // the window: buf[pos:end] is unread
	pos  int
	end  int
	base int64 // offset in the stream of buf[0]
	max  int64 // most bytes that the stream may have
	err  error // what the reader said, once it said something
}

const windowSize = 1 << 17

func newInput(r io.Reader, max int64) *input {
	return &input{r: r, buf: make([]byte, windowSize), max: max}
}

// offset is the place of the next unread byte.
func (in *input) offset() int64 { return in.base + int64(in.pos) }

// need makes n unread bytes available, n at most half the window, and says
// whether they are there.
func (in *input) need(n int) bool {
	if in.end-in.pos >= n {
		return true
	}
	copy(in.buf, in.buf[in.pos:in.end])
	in.base += int64(in.pos)
	in.end -= in.pos
	in.pos = 0
	for tries := 0; in.end < n && in.err == nil; {
		m, err := in.r.Read(in.buf[in.end:])
		in.end += m
		in.err = err
		if m == 0 && err == nil {
			if tries++; tries > 100 {
				in.err = io.ErrNoProgress
			}
		}
		if in.base+int64(in.end) > in.max && in.err == nil {
			in.err = fmt.Errorf("longer than %d bytes", in.max)
		}
	}
	return in.end >= n
}

// want is need for bytes without which there is nothing to read.
func (in *input) want(n int) {
	if !in.need(n) {
		panic(broken{in.short()})
	}
}

// short is the error of a read that found too few bytes.
func (in *input) short() error {
	if in.err != nil && !errors.Is(in.err, io.EOF) {
		return fmt.Errorf("offset %d: %w", in.base+int64(in.end), in.err)
	}
	return fmt.Errorf("offset %d: the file ends in the middle of the pickle", in.base+int64(in.end))
}

// text returns the next n bytes. They stay valid until the next read. A long
// string is gathered piece by piece, so that only bytes that are there cost memory.
func (in *input) text(n int64) []byte {
	if n <= windowSize/2 {
		in.want(int(n))
		b := in.buf[in.pos : in.pos+int(n)]
		in.pos += int(n)
		return b
	}
	var b []byte
	for n > 0 {
		m := int(min(n, stringChunk))
		in.want(m)
		b = append(b, in.buf[in.pos:in.pos+m]...)
		in.pos += m
		n -= int64(m)
	}
	return b
}

// formats are the openings of files that get mistaken for a snapshot.
var formats = []struct {
	magic string
	what  string
}{
	{"PK\x03\x04", "a zip archive, which cannot be read from a stream: give it as a file"},
	{"PK\x05\x06", "an empty zip archive, not a memory snapshot"},
	{"\x89PNG", "a PNG image, not a memory snapshot"},
	{"version https://git-lfs", "a git-lfs pointer, not a memory snapshot; run git lfs pull"},
	{"<!DOCTYPE", "an HTML page, not a memory snapshot"},
	{"<!doctype", "an HTML page, not a memory snapshot"},
	{"<html", "an HTML page, not a memory snapshot"},
	{"{", "JSON text, not a memory snapshot; the reader wants the pickle that torch.cuda.memory._dump_snapshot writes"},
	{"[", "JSON text, not a memory snapshot; the reader wants the pickle that torch.cuda.memory._dump_snapshot writes"},
	{"BZh", "bzip2 compressed; unpack it first (gzip is read as it is)"},
	{"\xfd7zXZ", "xz compressed; unpack it first (gzip is read as it is)"},
	{"\x28\xb5\x2f\xfd", "zstd compressed; unpack it first (gzip is read as it is)"},
	{"\xff\xfe", "UTF-16 text, not a memory snapshot"},
	{"\xef\xbb\xbf", "text, not a memory snapshot"},
	{"GGUF", "a GGUF model, not a memory snapshot"},
	{"\x08", "not a pickle (an ONNX model? give it to memestimate without \"snapshot\")"},
}

// open looks at the first bytes of r, unpacks zip and gzip, and refuses what is no pickle.
func open(r io.Reader) (io.Reader, error) {
	// A small buffer: reads into the window go past it.
	br := bufio.NewReaderSize(r, 4096)
	packed := false
	for {
		head, err := br.Peek(32)
		if len(head) == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			return nil, errors.New("empty file")
		}
		if bytes.HasPrefix(head, []byte("\x1f\x8b")) {
			if packed {
				return nil, errors.New("gzip within gzip; unpack it once")
			}
			z, err := gzip.NewReader(br)
			if err != nil {
				return nil, fmt.Errorf("gzip: %w", err)
			}
			br, packed = bufio.NewReaderSize(z, 4096), true
			continue
		}
		if head[0] == 0x80 {
			return br, nil
		}
		if f, ok := r.(zipped); ok && !packed && bytes.HasPrefix(head, []byte("PK\x03\x04")) {
			z, err := openZip(f)
			if err != nil {
				return nil, fmt.Errorf("zip: %w", err)
			}
			br, r = bufio.NewReaderSize(z, 4096), nil
			continue
		}
		for _, f := range formats {
			if bytes.HasPrefix(head, []byte(f.magic)) {
				return nil, errors.New(f.what)
			}
		}
		return nil, fmt.Errorf("not a pickle of protocol 2 to 5: starts with %q", head[:min(8, len(head))])
	}
}
