package snapshot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// high is an integer with the top bit of 64 set, as Python writes it.
func high(n uint64) string { return "\x8a\x09" + u64(n) + "\x00" }

// XPUs have addresses with the top bit set (here one that a public report has), and some writers give a segment's pool
// as a list. Fields that nobody knows are passed over. What is written is read as the same again.
func TestHighAddresses(t *testing.T) {
	const at = 18446720620317114368
	text := snap(list(dict("device", num(0), "address", high(at), "total_size", num(2<<20), "allocated_size", num(512),
		"stream", num(0), "segment_type", str("small"), "segment_pool_id", list(num(0), num(1)), "of_the_future", num(7),
		"blocks", list(dict("address", high(at), "size", num(512), "state", str("active_allocated")),
			dict("address", high(at+512), "size", num(2<<20-512), "state", str("inactive"))))),
		trace(dict("action", str("segment_alloc"), "addr", high(at), "size", num(2<<20), "stream", num(0)),
			dict("action", str("alloc"), "addr", high(at), "size", num(512), "stream", num(0))))
	s, err := Read(strings.NewReader(text), Options{})
	must.OK(t, err)
	for range 2 {
		g := &s.Segments[0]
		if uint64(g.Addr) != at || g.Pool != [2]int64{0, 1} || len(g.Blocks) != 2 || uint64(g.Blocks[1].Addr) != at+512 {
			t.Fatalf("%+v", g)
		}
		if f := s.Figures(0); f.Allocated != 512 {
			t.Fatalf("%+v", f)
		}
		var b bytes.Buffer
		must.OK(t, Write(&b, s))
		if s, err = Read(&b, Options{}); err != nil {
			t.Fatal(err)
		}
	}
}
