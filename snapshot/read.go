package snapshot

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
)

// Options change how Read reads. The zero value reads everything.
type Options struct {
	// Visit, where set, is called with every event instead of keeping it, in
	// the order of the file. The event is only valid during the call; the
	// snapshot's Frames, Notes, Streams and Stack are those read so far. An
	// error ends the reading and is returned.
	Visit func(s *Snapshot, device int, e *Event) error

	// MaxBytes bounds the decompressed size of the file; 0 is 64 GiB.
	MaxBytes int64
}

// Read reads a snapshot, gzip compressed or not. Errors say at which offset of
// the (decompressed) file it stopped making sense.
func Read(r io.Reader, opts Options) (*Snapshot, error) {
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	r, err := open(r)
	if err != nil {
		return nil, err
	}
	m := &machine{
		in: newInput(r, opts.MaxBytes), opts: opts,
		s:       &Snapshot{stacks: make([][2]uint32, 1)},
		strings: append([]string(nil), knownStrings...), ids: map[string]uint32{},
		frameIDs: map[frameKey]uint32{}, noteIDs: map[noteKey]NoteID{}, streamIDs: map[int64]uint32{},
	}
	for i, s := range m.strings {
		if _, ok := m.ids[s]; !ok {
			m.ids[s] = uint32(i)
		}
	}
	if err := m.run(); err != nil {
		return nil, err
	}
	return m.s, nil
}

// stop ends the pickle: the stack must hold the top dict alone, and the file
// nothing more.
func (m *machine) stop() error {
	if at := m.in.offset(); at < m.frameEnd {
		return m.fail("the last frame ends %d bytes after the pickle", m.frameEnd-at)
	}
	if len(m.stack) != 1 || len(m.marks) != 0 {
		return m.fail("the pickle ends with %d values and %d MARKs, wanted one value", len(m.stack), len(m.marks))
	}
	if m.in.need(1) {
		return m.fail("more bytes after the end of the pickle")
	}
	if m.in.err != nil && !errors.Is(m.in.err, io.EOF) {
		return m.in.short()
	}
	o := m.at(0)
	switch {
	case o != nil && o.role == roleSegments:
		return m.disjoint()
	case o == nil || o.kind != Dict || o.done:
		return m.refuseRoot()
	}
	if err := m.top(o.items); err != nil {
		return err
	}
	return m.disjoint()
}

// top takes what is left of the file once segments and traces are taken apart.
func (m *machine) top(items []value) error {
	s := m.s
	segments := false
	for i := 0; i+1 < len(items); i += 2 {
		k, v := items[i], items[i+1]
		if k.kind != kString {
			return m.fail("the top dict has a key that is no string")
		}
		var err error
		switch uint32(k.n) {
		case idSegments:
			segments = true
			err = m.each("segments", v, roleSegments, func(items []value) error {
				_, err := m.segment(items)
				return err
			})
		case idTraces:
			err = m.traces(v)
		case idSettings:
			s.hasSettings = true
			var d Value
			if d, err = m.export(v, 0); err == nil {
				if d.Kind != Dict {
					return m.fail("allocator_settings is no dict")
				}
				for k := 0; k < len(d.Items); k += 2 {
					s.Settings = append(s.Settings, Pair{d.Items[k], d.Items[k+1]})
				}
			}
		case idAnnotations:
			s.hasNotes = true
			err = m.each("external_annotations", v, roleRanges, func(items []value) error {
				_, err := m.annotation(items)
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	if !segments {
		return errors.New("not a memory snapshot: its top dict wants segments and device_traces")
	}
	return nil
}

// each calls f with the items of every dict of a list, unless the list has been
// taken apart while it was read.
func (m *machine) each(what string, v value, done role, f func([]value) error) error {
	if v.kind != kObject || m.objects[v.n].kind != List || m.objects[v.n].done {
		return m.fail("%s is no list", what)
	}
	o := &m.objects[v.n]
	if done != roleNone && o.role == done {
		return nil
	}
	for k := range o.items {
		d := m.objects[v.n].items[k]
		if d.kind != kObject || m.objects[d.n].kind != Dict || m.objects[d.n].done {
			return m.fail("%s: element %d is no dict", what, k)
		}
		if err := f(m.objects[d.n].items); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) traces(v value) error {
	if v.kind != kObject || m.objects[v.n].kind != List {
		return m.fail("device_traces is no list")
	}
	if m.objects[v.n].role == roleTraces {
		return nil
	}
	for k := range m.objects[v.n].items {
		m.s.Traces = append(m.s.Traces, new(Trace))
		err := m.each("device_traces", m.objects[v.n].items[k], roleNone, func(items []value) error {
			_, err := m.event(k, items)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) annotation(items []value) (value, error) {
	var a Annotation
	for i := 0; i+1 < len(items); i += 2 {
		k, v := items[i], items[i+1]
		id := uint32(numIDs)
		if k.kind == kString {
			id = uint32(k.n)
		}
		switch {
		case id == idName && v.kind == kString:
			a.Name = m.strings[v.n]
		case id == idStage && v.kind == kString:
			a.Stage = m.strings[v.n]
		case id == idDevice && v.kind == kInt:
			a.Device = v.n
		case id == idTime && v.kind == kInt:
			a.Time = v.n
		case id == idName || id == idStage || id == idDevice || id == idTime:
			return value{}, m.fail("external_annotations: %s is of the wrong type", m.strings[id])
		}
	}
	m.s.Annotations = append(m.s.Annotations, a)
	return value{int64(len(m.s.Annotations) - 1), kRange}, nil
}

// disjoint refuses segments of one device that overlap.
func (m *machine) disjoint() error {
	order := make([]int, len(m.s.Segments))
	for i := range order {
		order[i] = i
	}
	seg := m.s.Segments
	sort.SliceStable(order, func(a, b int) bool {
		x, y := &seg[order[a]], &seg[order[b]]
		if x.Device != y.Device {
			return x.Device < y.Device
		}
		return x.Addr < y.Addr
	})
	for i := 1; i < len(order); i++ {
		x, y := &seg[order[i-1]], &seg[order[i]]
		if x.Device == y.Device && y.Addr < x.Addr+x.Total {
			return fmt.Errorf("segments at %#x and %#x of device %d overlap", uint64(x.Addr), uint64(y.Addr), x.Device)
		}
	}
	return nil
}

// export copies a setting out of the machine. What is shared in the file is
// copied for each use, so the copies are counted against the bytes read.
func (m *machine) export(v value, depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, m.fail("nested deeper than %d, or holds itself", maxDepth)
	}
	if m.nodes++; m.nodes > slack+m.in.offset()/4 {
		return Value{}, m.fail("shared values unfold to more than %d", m.nodes)
	}
	if v.kind == kObject && m.objects[v.n].done {
		v = m.objects[v.n].alias
	}
	switch v.kind {
	case kNone:
		return Value{}, nil
	case kBool:
		return Value{Kind: Bool, Int: v.n}, nil
	case kInt:
		return Value{Kind: Int, Int: v.n}, nil
	case kFloat:
		return Value{Kind: Float, Float: math.Float64frombits(uint64(v.n))}, nil
	case kString:
		return Value{Kind: String, Text: m.strings[v.n]}, nil
	case kBig:
		return Value{Kind: Big, Text: m.strings[v.n]}, nil
	case kObject:
		o := &m.objects[v.n]
		if o.role != roleNone {
			return Value{}, m.fail("a list of segments, blocks or events where none belongs")
		}
		out := Value{Kind: o.kind}
		for k := 0; k < len(m.objects[v.n].items); k++ {
			w, err := m.export(m.objects[v.n].items[k], depth+1)
			if err != nil {
				return Value{}, err
			}
			out.Items = append(out.Items, w)
		}
		return out, nil
	}
	return Value{}, m.fail("an event, a frame, a block or a segment where none belongs")
}
