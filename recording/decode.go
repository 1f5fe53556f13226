package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
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
	err   error // the first: what is read after it is zero

	live    []bool // by storage
	born    int32  // storages that the results of the last call refer to end below this
	inCall  bool   // the last lines are a call and its allocations
	pending int64  // the line of that call
	room    []byte // for a string
}

// fail says what is wrong with the line, unless something was before.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = &FormatError{d.line, fmt.Sprintf(format, args...)}
	}
}

// run reads all lines.
func (d *decoder) run() error {
	d.line = 1
	d.header()
	for end := false; !end && d.err == nil; {
		d.line++
		if !d.next('[') {
			d.fail("a line that is no list")
		}
		d.open()
		word := d.string()
		end = string(word) == "end"
		d.words(word)
		if d.more() {
			d.fail("more values than wanted")
		}
		d.token()
	}
	if d.err == nil && d.json.PeekKind() != 0 {
		d.line++
		d.fail("more follows the last line")
	}
	if d.err != nil {
		return d.err
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) { // reads to the end of the file, and its checksum
		return err
	}
	return nil
}

func (d *decoder) header() {
	if !d.next('{') {
		d.fail("no recording: it begins with no header")
		return
	}
	if d.err = json.UnmarshalDecode(d.json, &d.rec.Header); d.err != nil {
		return
	}
	if f := d.rec.Format; f != Format {
		if strings.HasPrefix(f, "memestimate-recording/") {
			d.fail("format %.60q is not known to this version, which reads %s", f, Format)
		}
		d.fail("no recording: its format is %.60q, wanted %q", f, Format)
	}
	if n := d.rec.GPUs; n < 0 || n > maxGPUs {
		d.fail("a process of %d GPUs, wanted at most %d", n, maxGPUs)
	}
}

// words reads what follows the word of a line.
func (d *decoder) words(word []byte) {
	if string(word) != "alloc" {
		d.settle()
	}
	switch string(word) {
	case "op":
		d.rec.Ops = append(d.rec.Ops, Op{d.text(), d.text()})
	case "meta":
		d.meta()
	case "frame":
		d.rec.Frames = append(d.rec.Frames, Frame{Parent: d.id(len(d.rec.Frames), "frame"), File: d.text(),
			Line: d.small("a line"), Function: d.text()})
	case "module":
		d.id(len(d.rec.Modules), "module") // its parent
		d.rec.Modules = append(d.rec.Modules, Module{d.text(), d.text()})
	case "cudnn":
		d.rec.Answers = append(d.rec.Answers, d.answer())
	case "search":
		d.rec.Searches = append(d.rec.Searches, Search{d.answer(), d.bytes()})
	case "nccl":
		d.nccl()
	case "communicator":
		d.communicator()
	case "connect":
		d.connect()
	case "end":
		if n := d.count("the number of lines"); n != d.line-2 {
			d.fail("%d lines are between the first and the last, which says %d: lines are missing", d.line-2, n)
		}
	default:
		if k := slices.Index(kindWords[:], string(word)); k >= 0 {
			d.event(Kind(k))
			return
		}
		if !bytes.HasPrefix(word, []byte("x-")) {
			d.fail("unknown word %q", short(word))
		}
		for d.more() {
			d.err = d.json.SkipValue()
		}
	}
}

// settle says whether all storages that a call's results refer to were born.
func (d *decoder) settle() {
	if d.err == nil && d.inCall && d.born > d.rec.Storages {
		const missing = "a result of the call is storage %d, which does not begin in the lines after it"
		d.err = &FormatError{d.pending, fmt.Sprintf(missing, d.born-1)}
	}
	d.inCall = false
}

func (d *decoder) event(k Kind) {
	e := Event{Kind: k}
	switch k {
	case CallEvent:
		e.A = int32(len(d.rec.Calls))
		d.call()
	case Alloc:
		n := d.count("a storage")
		if n != int64(d.rec.Storages) {
			d.fail("storage %d begins, wanted %d, the next number", n, d.rec.Storages)
		}
		if n >= maxStorage {
			d.fail("more than %d storages", int32(maxStorage))
		}
		e.A, e.Bytes = int32(n), d.bytes()
		if d.more() {
			if e.B = d.small("a GPU"); e.B >= d.rec.gpus() {
				d.fail("GPU %d of %d, which are numbered from 0", e.B, d.rec.gpus())
			}
		}
		d.rec.Storages++
		d.live = append(d.live, true)
	case Free:
		if e.A = d.storage(); d.err == nil {
			d.live[e.A] = false
		}
	case Resize:
		e.A, e.Bytes = d.storage(), d.bytes()
	case Is:
		e.A, e.What, e.B = d.storage(), d.oneOf(roleWords[:], "a kind of storage"), d.name()
	case Phase:
		e.What = d.oneOf(phaseWords[:], "a phase")
	case Thread, Stream, Pool:
		e.A = d.small("a " + kindWords[k])
	case RecordStream:
		e.A, e.B = d.storage(), d.small("a stream")
	case Sum:
		if len(d.rec.Events) == 0 {
			d.fail("a sum follows no call")
		}
		e.A = d.storage()
	case Allocated, OutOfMemory:
		e.Bytes = d.bytes()
	case Depends:
		e.A = int32(len(d.rec.Asks))
		d.ask()
	case Note:
		e.A, e.B, e.Bytes = d.name(), d.name(), NoFrame
		if d.more() {
			e.Bytes = int64(d.id(len(d.rec.Frames), "frame"))
		}
	}
	d.rec.Events = append(d.rec.Events, e)
}

// ask reads what follows the word of a line that says what a program asked for. Recorders did not always say how much
// more another answer takes.
func (d *decoder) ask() {
	a := Ask{Question: Question(d.oneOf(questionWords[:], "a question")), Taken: d.name(), Bytes: d.weight(),
		Frame: d.id(len(d.rec.Frames), "frame"), More: Unweighed}
	if d.more() {
		a.More = d.weight()
	}
	d.rec.Asks = append(d.rec.Asks, a)
}
