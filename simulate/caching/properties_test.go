package caching

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// check says what is wrong with an allocator's inner order, "" if nothing.
func check(a *Allocator) string {
	var active, activeSmall, bytes, requested, reserved, segments, split, splitBytes, cachedBlocks int64
	for _, s := range a.Segments() {
		at := s.Address
		wasFree := false
		expandable := s.Expandable
		for i, b := range s.Blocks {
			switch {
			case b.Address != at:
				return "blocks do not tile their segment"
			case b.Bytes <= 0 || b.Bytes%minBlock != 0:
				return "a block is not of a multiple of 512 bytes"
			case !b.Active && wasFree && i > 0:
				return "two cached neighbours were not merged"
			case b.Active && b.Requested > b.Bytes:
				return "a block is smaller than its request"
			}
			at += b.Bytes
			wasFree = !b.Active
			if b.Active {
				active++
				if s.Small {
					activeSmall++
				}
				bytes += b.Bytes
				requested += b.Requested
			} else {
				cachedBlocks++
				if !expandable && len(s.Blocks) > 1 {
					split++
					splitBytes += b.Bytes
				}
			}
		}
		if at != s.Address+s.Bytes {
			return "blocks do not fill their segment"
		}
		reserved += s.Bytes
		if !expandable {
			segments++
		}
	}
	st := a.Stats()
	for _, p := range []struct {
		name string
		got  Stat
		want int64
	}{
		{"allocation", st.Allocation.All, active}, {"allocation small", st.Allocation.Small, activeSmall}, {"active",
			st.Active.All, active},
		{"allocated_bytes", st.AllocatedBytes.All, bytes}, {"active_bytes", st.ActiveBytes.All, bytes},
		{"requested_bytes", st.RequestedBytes.All, requested}, {"reserved_bytes", st.ReservedBytes.All, reserved},
		{"segment", st.Segment.All, segments}, {"inactive_split", st.InactiveSplit.All, split}, {"inactive_split_bytes",
			st.InactiveSplitBytes.All, splitBytes},
	} {
		if p.got.Current != p.want {
			return "the statistic " + p.name + " is not the sum of the blocks"
		}
		if p.got.Allocated-p.got.Freed != p.got.Current || p.got.Peak < p.got.Current {
			return "the statistic " + p.name + " contradicts itself"
		}
	}
	for _, p := range []PoolStat{st.Allocation, st.Segment, st.Active, st.InactiveSplit, st.AllocatedBytes,
		st.ReservedBytes, st.ActiveBytes, st.InactiveSplitBytes, st.RequestedBytes} {
		if p.Small.Current+p.Large.Current != p.All.Current || p.Small.Current < 0 || p.Large.Current < 0 {
			return "the pools do not add up"
		}
	}
	if st.AllocatedBytes.All.Current > st.ReservedBytes.All.Current ||
		st.RequestedBytes.All.Current > st.AllocatedBytes.All.Current {
		return "requested <= allocated <= reserved does not hold"
	}
	free := 0
	for i := range a.pools {
		p := &a.pools[i]
		blocks := slices.Collect(p.free.all)
		if free += len(blocks); misordered(blocks) {
			return "the free blocks are out of order"
		}
		if misordered(slices.Concat(p.unmapped...)) {
			return "the unmapped ranges are out of order"
		}
	}
	if int64(free) != cachedBlocks {
		return "the pools hold something else than the cached blocks"
	}
	return ""
}

// misordered reports whether some entry does not come before the next.
func misordered(entries []entry) bool {
	last := entry{stream: -1}
	for _, e := range entries {
		if last.before(&e) == 0 {
			return true
		}
		last = e
	}
	return false
}

// drive turns bytes into requests: the allocator's whole life in a fuzzer's hands.
func drive(t *testing.T, data []byte) {
	if len(data) < 4 {
		return
	}
	cfg := Config{}
	if data[0]&1 != 0 {
		cfg.Options.ExpandableSegments = true
	}
	if data[0]&2 != 0 && data[0]&1 == 0 {
		cfg.Options.MaxSplitSize = 24 << 20
	}
	if data[0]&4 != 0 {
		cfg.Options.GCThreshold = 0.6
		cfg.Limit = 600 << 20
	}
	if data[0]&8 != 0 {
		cfg.Capacity = 400 << 20
	}
	if data[0]&16 != 0 {
		for i := range cfg.Options.RoundupDivisions {
			cfg.Options.RoundupDivisions[i] = int64(1) << (data[1] % 6)
		}
	}
	if data[0]&32 != 0 {
		cfg.Address = func(int64) int64 { return 1 << 30 } // a caller's nonsense must do no harm
		cfg.Options.ExpandableSegments = false
	}
	a := New(cfg)
	var live []Block
	for i := 2; i+2 < len(data); i += 3 {
		op, x := data[i], int64(data[i+1])<<8|int64(data[i+2])
		switch {
		case op < 140:
			size := []int64{x, x * 16, x * 512, x << 10, x << 12}[op%5]
			b, err := a.Malloc(size, int(op>>6)&1)
			var oom *OOM
			if err != nil && !errors.As(err, &oom) {
				t.Fatal(err)
			}
			if err == nil {
				live = append(live, b)
			} else if oom.Reserved > a.capacity || oom.Error() == "" {
				t.Fatalf("more than the capacity is reserved: %+v", oom)
			}
		case op < 250 && len(live) > 0:
			j := int(x) % len(live)
			must.OK(t, a.Free(live[j]))
			live = slices.Delete(live, j, j+1)
		case op >= 250:
			a.EmptyCache()
		}
		if a.stats.ReservedBytes.All.Current > a.capacity {
			t.Fatal("more is reserved than the device has")
		}
	}
	if cfg.Address == nil {
		if wrong := check(a); wrong != "" {
			t.Fatal(wrong)
		}
	}
	for _, b := range live {
		must.OK(t, a.Free(b))
	}
	a.EmptyCache()
	if s := a.Stats(); s.ReservedBytes.All.Current != 0 || s.AllocatedBytes.All.Current != 0 || len(a.Segments()) != 0 {
		t.Fatalf("something is left after everything was given back: %+v", s)
	}
}

func FuzzAllocator(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for mode := range 64 {
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		data[0] = byte(mode)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { drive(t, data) })
}

// Long random lives, checked on the way.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 40 {
		data := make([]byte, 3000)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		data[0] = byte(round) &^ 32
		drive(t, data)
	}
}
