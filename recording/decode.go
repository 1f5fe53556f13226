package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A decoder turns lines into a Recording.
type decoder struct {
	json  *jsontext.Decoder
	rec   *Recording
	texts map[string]int32
	line  int64

	live    []bool // by storage
	born    int32  // storages that the results of the last call refer to end below this
	inCall  bool   // the last lines are a call and its allocations
	pending int64  // the line of that call
	room    []byte // for a string
}

func (d *decoder) fail(format string, args ...any) error {
	return &FormatError{d.line, fmt.Sprintf(format, args...)}
}

// run reads all lines.
func (d *decoder) run() error {
	d.line = 1
	if k := d.json.PeekKind(); k != '{' && k != 0 {
		return d.fail("no recording: it begins with no header")
	}
	if err := json.UnmarshalDecode(d.json, &d.rec.Header); err != nil {
		return err
	}
	if f := d.rec.Format; f != Format {
		if strings.HasPrefix(f, "memestimate-recording/") {
			return d.fail("format %.60q is not known to this version, which reads %s", f, Format)
		}
		return d.fail("no recording: its format is %.60q, wanted %q", f, Format)
	}
	if n := d.rec.GPUs; n < 0 || n > maxGPUs {
		return d.fail("a process of %d GPUs, wanted at most %d", n, maxGPUs)
	}
	for {
		d.line++
		if err := d.begin(); err != nil {
			return err
		}
		word, err := d.string()
		if err != nil {
			return err
		}
		end := string(word) == "end"
		if err := d.words(word); err != nil {
			return err
		}
		if d.json.PeekKind() != ']' {
			return d.fail("more values than wanted")
		}
		if _, err := d.json.ReadToken(); err != nil {
			return err
		}
		if end {
			if k := d.json.PeekKind(); k != 0 {
				d.line++
				return d.fail("more follows the last line")
			}
			if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) { // reads to the end of the file, and its checksum
				return err
			}
			return nil
		}
	}
}

// begin reads the opening bracket of a line.
func (d *decoder) begin() error {
	t, err := d.json.ReadToken()
	if err != nil {
		return err
	}
	if t.Kind() != '[' {
		return d.fail("a line that is no list")
	}
	return nil
}

// words reads what follows the word of a line.
func (d *decoder) words(word []byte) error {
	if string(word) != "alloc" {
		if err := d.settle(); err != nil {
			return err
		}
	}
	switch string(word) {
	case "op":
		return d.op()
	case "meta":
		return d.meta()
	case "frame":
		return d.frame()
	case "module":
		return d.module()
	case "cudnn":
		return d.answer(false)
	case "search":
		return d.answer(true)
	case "nccl":
		return d.nccl()
	case "communicator":
		return d.communicator()
	case "connect":
		return d.connect()
	case "end":
		n, err := d.count("the number of lines")
		if err == nil && n != d.line-2 {
			err = d.fail("%d lines are between the first and the last, which says %d: lines are missing", d.line-2, n)
		}
		return err
	}
	for k, w := range kindWords {
		if w == string(word) {
			return d.event(Kind(k))
		}
	}
	if bytes.HasPrefix(word, []byte("x-")) {
		for d.json.PeekKind() != ']' {
			if err := d.json.SkipValue(); err != nil {
				return err
			}
		}
		return nil
	}
	return d.fail("unknown word %q", short(word))
}

// settle says whether all storages that a call's results refer to were born.
func (d *decoder) settle() error {
	if d.inCall && d.born > d.rec.Storages {
		const missing = "a result of the call is storage %d, which does not begin in the lines after it"
		return &FormatError{d.pending, fmt.Sprintf(missing, d.born-1)}
	}
	d.inCall = false
	return nil
}

func (d *decoder) event(k Kind) (err error) {
	e := Event{Kind: k}
	switch k {
	case CallEvent:
		e.A = int32(len(d.rec.Calls))
		err = d.call()
	case Alloc:
		var n int64
		if n, err = d.count("a storage"); err == nil && n != int64(d.rec.Storages) {
			return d.fail("storage %d begins, wanted %d, the next number", n, d.rec.Storages)
		}
		if n >= maxStorage {
			return d.fail("more than %d storages", int32(maxStorage))
		}
		e.A = d.rec.Storages
		if err == nil {
			e.Bytes, err = d.bytes()
		}
		if err == nil && d.json.PeekKind() != ']' {
			if e.B, err = d.small("a GPU"); err == nil && e.B >= d.rec.gpus() {
				return d.fail("GPU %d of %d, which are numbered from 0", e.B, d.rec.gpus())
			}
		}
		d.rec.Storages++
		d.live = append(d.live, true)
	case Free:
		if e.A, err = d.storage(); err == nil {
			d.live[e.A] = false
		}
	case Resize:
		if e.A, err = d.storage(); err == nil {
			e.Bytes, err = d.bytes()
		}
	case Is:
		if e.A, err = d.storage(); err == nil {
			e.What, err = d.oneOf(roleWords[:], "a kind of storage")
		}
		if err == nil {
			e.B, err = d.name()
		}
	case Phase:
		e.What, err = d.oneOf(phaseWords[:], "a phase")
	case Thread, Stream, Pool:
		e.A, err = d.small("a " + kindWords[k])
	case RecordStream:
		if e.A, err = d.storage(); err == nil {
			e.B, err = d.small("a stream")
		}
	case Sum:
		if n := len(d.rec.Events); n == 0 {
			return d.fail("a sum follows no call")
		}
		e.A, err = d.storage()
	case Allocated, OutOfMemory:
		e.Bytes, err = d.bytes()
	case Depends:
		e.A = int32(len(d.rec.Asks))
		err = d.ask()
	case Note:
		if e.A, err = d.name(); err == nil {
			e.B, err = d.name()
		}
		frame := int32(NoFrame)
		if err == nil && d.json.PeekKind() != ']' {
			frame, err = d.id(len(d.rec.Frames), "frame")
		}
		e.Bytes = int64(frame)
	}
	d.rec.Events = append(d.rec.Events, e)
	return err
}

// ask reads what follows the word of a line that says what a program asked for. Recorders did not always say how much
// more another answer takes.
func (d *decoder) ask() error {
	a := Ask{More: Unweighed}
	question, err := d.oneOf(questionWords[:], "a question")
	if err == nil {
		a.Question = Question(question)
		a.Taken, err = d.name()
	}
	if err == nil {
		a.Bytes, err = d.weight()
	}
	if err == nil {
		a.Frame, err = d.id(len(d.rec.Frames), "frame")
	}
	if err == nil && d.json.PeekKind() != ']' {
		a.More, err = d.weight()
	}
	d.rec.Asks = append(d.rec.Asks, a)
	return err
}
