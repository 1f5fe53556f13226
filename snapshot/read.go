package snapshot

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
)

// Options change how Read reads.
type Options struct {
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
		in: newInput(r, opts.MaxBytes), s: newSnapshot(),
		strings: slices.Clone(knownStrings), ids: map[string]uint32{},
		frameIDs: map[frameKey]uint32{}, stackIDs: map[string]StackID{},
		categoryIDs: map[string]uint32{"": 0}, streamIDs: map[int64]uint32{},
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
func (m *machine) stop() {
	if at := m.in.offset(); at < m.frameEnd {
		m.fail("the last frame ends %d bytes after the pickle", m.frameEnd-at)
	}
	if len(m.stack) != 1 || len(m.marks) != 0 {
		m.fail("the pickle ends with %d values and %d MARKs, wanted one value", len(m.stack), len(m.marks))
	}
	if m.in.need(1) {
		m.fail("more bytes after the end of the pickle")
	}
	if m.in.err != nil && !errors.Is(m.in.err, io.EOF) {
		panic(broken{m.in.short()})
	}
	o := m.at(0)
	switch {
	case o == nil || o.done || o.shape != aDict && o.role != roleSegments:
		m.refuseRoot()
	case o.shape == aDict:
		m.top(o.items)
	}
	m.disjoint()
}

// top takes what is left of the file once segments and traces are taken apart.
func (m *machine) top(items []value) {
	segments := false
	for i := 0; i+1 < len(items); i += 2 {
		k, v := items[i], items[i+1]
		if k.kind != kString {
			m.fail("the top dict has a key that is no string")
		}
		of := roleNone
		if v.kind == kObject {
			of = m.objects[v.n].role
		}
		switch id := uint32(k.n); {
		case id == idSegments && of == roleSegments:
			segments = true
		case id == idSegments && of != roleSegments, id == idTraces && of != roleTraces:
			m.fail("%s is no list", m.strings[id])
		case id == idSettings:
			m.settings(v)
		}
	}
	if !segments {
		m.fail("not a memory snapshot: its top dict wants segments and device_traces")
	}
}

// settings takes the allocator_settings that replaying depends on.
func (m *machine) settings(v value) {
	items, ok := m.itemsOf(v, aDict)
	if !ok {
		m.fail("allocator_settings is no dict")
	}
	s := m.s
	for i := 0; i+1 < len(items); i += 2 {
		k, v := items[i], items[i+1]
		if k.kind != kString {
			continue
		}
		switch name := m.strings[k.n]; {
		case name == "PYTORCH_CUDA_ALLOC_CONF" && v.kind == kString:
			s.AllocConf = m.strings[v.n]
		case name == "max_split_size" && v.kind == kInt:
			s.maxSplit = max(v.n, 0)
		case name == "roundup_power2_divisions":
			by, _ := m.itemsOf(v, aDict)
			for i := 0; i+1 < len(by); i += 2 {
				for j := range s.roundup {
					if by[i].kind == kString && by[i+1].kind == kInt && m.strings[by[i].n] == strconv.Itoa(1<<j) {
						s.roundup[j] = by[i+1].n
					}
				}
			}
		}
	}
}

// disjoint refuses segments of one device that overlap.
func (m *machine) disjoint() {
	order := make([]*Segment, len(m.s.Segments))
	for i := range order {
		order[i] = &m.s.Segments[i]
	}
	slices.SortStableFunc(order, func(x, y *Segment) int {
		return cmp.Or(cmp.Compare(x.Device, y.Device), cmp.Compare(x.Addr, y.Addr))
	})
	for i := 1; i < len(order); i++ {
		x, y := order[i-1], order[i]
		if x.Device == y.Device && y.Addr < x.Addr+x.Total {
			m.fail("segments at %#x and %#x of device %d overlap", uint64(x.Addr), uint64(y.Addr), x.Device)
		}
	}
}
