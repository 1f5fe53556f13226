package oom

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/snapshot"
)

const mib = 1 << 20

// A machine runs a made-up program on the simulated allocator and records it.
type machine struct {
	t     *testing.T
	a     *caching.Allocator
	b     *snapshot.Builder
	trace []caching.TraceEntry // what was not recorded yet
	stack snapshot.StackID
	side  map[int64]int64 // streams by address
}

func newMachine(t *testing.T, capacity int64) *machine {
	m := &machine{t: t, b: snapshot.NewBuilder(1), side: map[int64]int64{}}
	told := func(e caching.TraceEntry) { m.trace = append(m.trace, e) }
	m.a = caching.New(caching.Config{Capacity: capacity, Told: told})
	return m
}

// at says where the program is, the outermost call first.
func (m *machine) at(frames ...snapshot.Frame) {
	slices.Reverse(frames)
	m.stack = m.b.Stack(frames...)
}

func frame(file string, line int64, name string) snapshot.Frame {
	return snapshot.Frame{File: file, Line: line, Name: name}
}

// ask allocates, and says whether that worked.
func (m *machine) ask(bytes int64, stream int) (caching.Block, bool) {
	b, err := m.a.Malloc(bytes, stream)
	oom := (*caching.OOM)(nil)
	if err != nil && !errors.As(err, &oom) {
		m.t.Fatal(err)
	}
	m.record(int64(stream))
	return b, err == nil
}

func (m *machine) free(b caching.Block) {
	if err := m.a.Free(b); err != nil {
		m.t.Fatal(err)
	}
	m.record(0)
}

func (m *machine) record(stream int64) {
	actions := map[caching.Action]snapshot.Action{caching.AllocBlock: snapshot.Alloc,
		caching.FreeRequested: snapshot.FreeRequested, caching.FreeCompleted: snapshot.FreeCompleted,
		caching.SegmentAlloc: snapshot.SegmentAlloc, caching.SegmentFree: snapshot.SegmentFree,
		caching.OutOfMemory: snapshot.OOM}
	for _, e := range m.trace {
		x := snapshot.Event{Action: actions[e.Action], Addr: e.Address, Size: e.Bytes, Stack: m.stack}
		if x.Action == snapshot.OOM {
			x.Addr = 1 << 40 // a limit on the process
		}
		m.b.Event(0, x, int64(e.Stream))
	}
	m.trace = m.trace[:0]
}

// explain ends the program.
func (m *machine) explain() []Failure {
	m.t.Helper()
	s := m.b.Snapshot()
	for _, g := range m.a.Segments() {
		k := snapshot.Segment{Addr: g.Address, Total: g.Bytes, Stream: int64(g.Stream), Small: g.Small,
			Expandable: g.Expandable}
		for _, b := range g.Blocks {
			x := snapshot.Block{Addr: b.Address, Size: b.Bytes, Requested: b.Requested}
			if b.Active {
				x.State = snapshot.ActiveAllocated
				k.Allocated += b.Bytes
			}
			k.Blocks = append(k.Blocks, x)
		}
		s.Segments = append(s.Segments, k)
	}
	h, err := s.History(0)
	if err != nil {
		m.t.Fatal(err)
	}
	if !h.Exact {
		m.t.Fatalf("not exact: %q", h.Doubts)
	}
	list, more, err := Explain(s, h)
	if err != nil || more != 0 {
		m.t.Fatal(err, more)
	}
	return list
}

var (
	top     = frame("/home/u/train.py", 90, "<module>")
	linear  = frame("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 134, "forward")
	seqs    = frame("/usr/lib/python3/site-packages/torch/nn/modules/container.py", 250, "forward")
	gpu     = int64(1 << 30)
	helpsOf = func(f *Failure, what string) string {
		for _, r := range f.Remedies {
			if strings.Contains(r.What, what) {
				return r.Helps
			}
		}
		return ""
	}
)

func wanted(t *testing.T, f *Failure, cause Cause, holder string, remedies map[string]string) {
	t.Helper()
	if f.Cause != cause || len(f.Held) == 0 || !strings.HasSuffix(f.Held[0].Site, holder) {
		t.Errorf("cause %s, held by %+v, wanted %s by %s: %s", f.Cause, f.Held, cause, holder,
			f.Says(func(n int64) string { return "some" }))
	}
	for what, helps := range remedies {
		if got := helpsOf(f, what); got != helps {
			t.Errorf("%s: %q, wanted %q: %+v", what, got, helps, f.Remedies)
		}
	}
	if f.Says(func(int64) string { return "some" }) == "" {
		t.Error("no word about it")
	}
}

// Every round keeps what its model made.
func TestLeak(t *testing.T) {
	m := newMachine(t, gpu)
	for ok := true; ok; {
		m.at(top, frame("/home/u/train.py", 20, "validate"))
		batch, fits := m.ask(4*mib, 0)
		for range 12 {
			m.at(top, frame("/home/u/train.py", 21, "validate"), seqs, linear)
			if _, fits := m.ask(4*mib, 0); !fits {
				ok = false
				break
			}
		}
		if ok = ok && fits; ok {
			m.free(batch)
		}
	}
	f := m.explain()[0]
	wanted(t, &f, Leak, "train.py:21:validate", map[string]string{"expandable": "no", "freeing what u/train.py:21": "yes",
		"of the batch": ""})
	if f.Rounds < 15 || f.Held[0].Rounds != f.Rounds {
		t.Errorf("%d rounds, of which %d are held", f.Rounds, f.Held[0].Rounds)
	}
}

// The third batch is too large.
func TestStep(t *testing.T) {
	m := newMachine(t, gpu)
	for _, size := range []int64{mib, mib, 100 * mib} {
		var made []caching.Block
		m.at(top, frame("/home/u/train.py", 30, "train"))
		for i := range 13 {
			if i > 0 {
				m.at(top, frame("/home/u/train.py", 31, "train"), seqs, linear)
			}
			b, ok := m.ask(size, 0)
			if !ok {
				break
			}
			made = append(made, b)
		}
		if size == mib {
			for _, b := range made {
				m.free(b)
			}
		}
	}
	f := m.explain()[0]
	wanted(t, &f, Step, "train.py:31:train", map[string]string{"expandable": "no", "1/2 of the batch": "yes"})
	if f.Rounds != 3 {
		t.Errorf("round %d, wanted 3", f.Rounds)
	}
}

// A freed buffer is cut into pages, every second of which is freed.
func TestFragmentation(t *testing.T) {
	m := newMachine(t, gpu)
	m.at(top, frame("/home/u/serve.py", 40, "warmup"))
	b, _ := m.ask(960*mib, 0)
	m.free(b)
	var pages []caching.Block
	m.at(top, frame("/home/u/serve.py", 41, "fill"))
	for range 48 {
		b, _ := m.ask(20*mib, 0)
		pages = append(pages, b)
	}
	for i := 0; i < len(pages); i += 2 {
		m.free(pages[i])
	}
	m.at(top, frame("/home/u/serve.py", 44, "scores"))
	if _, ok := m.ask(100*mib, 0); ok {
		t.Fatal("it fits")
	}
	f := m.explain()[0]
	wanted(t, &f, Fragmentation, "serve.py:41:fill", map[string]string{"expandable": "yes", "not splitting": "yes"})
	if f.Usable.Bytes != 480*mib || f.Usable.Pieces != 24 || f.Usable.Largest != 20*mib {
		t.Errorf("usable %+v", f.Usable)
	}
}

// A side stream's segments have free pieces that the main stream must not use.
func TestOtherStream(t *testing.T) {
	m := newMachine(t, gpu)
	var buffers []caching.Block
	m.at(top, frame("/home/u/load.py", 50, "prefetch"))
	for range 8 {
		b, _ := m.ask(96*mib, 1)
		buffers = append(buffers, b)
	}
	for _, b := range buffers {
		m.free(b)
	}
	for range 8 {
		m.ask(50*mib, 1)
	}
	m.at(top, frame("/home/u/load.py", 52, "use"))
	for ok := true; ok; {
		_, ok = m.ask(40*mib, 0)
	}
	f := m.explain()[0]
	wanted(t, &f, OtherStream, "load.py:50:prefetch", map[string]string{"one stream": "yes"})
}

// A batch fails; half of it fails in the handler, where the exception holds the
// first try's variables.
func TestFailedCall(t *testing.T) {
	m := newMachine(t, gpu)
	step := func(line, size int64) {
		for range 13 {
			m.at(top, frame("/home/u/train.py", line, "main"), frame("/home/u/train.py", 60, "step"), seqs, linear)
			if _, ok := m.ask(size, 0); !ok {
				return
			}
		}
		t.Fatal("it fits")
	}
	step(62, 100*mib)
	step(64, 50*mib)
	list := m.explain()
	if len(list) != 2 {
		t.Fatalf("%d failures", len(list))
	}
	wanted(t, &list[0], Step, "train.py:60:step", nil)
	wanted(t, &list[1], FailedCall, "train.py:60:step", nil)
	if list[1].ByAge.FailedCall != 1000*mib {
		t.Errorf("%+v", list[1].ByAge)
	}
}
