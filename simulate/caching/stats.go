package caching

import "strconv"

// A Stat is one statistic: its value now, its largest value, and the sums of all
// increases and of all decreases. Bytes or counts.
type Stat struct {
	Current, Peak, Allocated, Freed int64
}

// add counts an increase, or a decrease where n is negative.
func (s *Stat) add(n int64) {
	s.Current += n
	if n < 0 {
		s.Freed -= n
		return
	}
	s.Peak = max(s.Peak, s.Current)
	s.Allocated += n
}

// A PoolStat is a statistic of both pools together, of the small and of the large one.
type PoolStat struct {
	All, Small, Large Stat
}

func (s *PoolStat) add(small bool, n int64) {
	s.All.add(n)
	if small {
		s.Small.add(n)
	} else {
		s.Large.add(n)
	}
}

// Stats are what torch.cuda.memory_stats reports, with its meanings.
type Stats struct {
	Allocation         PoolStat // blocks handed out, a count
	Segment            PoolStat // segments from cudaMalloc, a count; expandable segments do not count
	Active             PoolStat // blocks handed out or waiting for another stream, a count
	InactiveSplit      PoolStat // free parts of segments that are in use, a count
	AllocatedBytes     PoolStat // bytes of the blocks handed out: torch.cuda.memory_allocated
	ReservedBytes      PoolStat // bytes of the segments: torch.cuda.memory_reserved
	ActiveBytes        PoolStat
	InactiveSplitBytes PoolStat
	RequestedBytes     PoolStat // bytes asked for, before rounding

	OversizeAllocations Stat // blocks of max_split_size and more, a count
	OversizeSegments    Stat
	AllocRetries        int64 // how often all cached blocks were given back to make room
	OOMs                int64
	SyncAllStreams      int64
	DeviceAllocs        int64 // calls of cudaMalloc, or of mapping
	DeviceFrees         int64
	MaxSplitSize        int64 // -1 when every block may be split
}

// Figures returns every statistic under its key of torch.cuda.memory_stats, such
// as "allocated_bytes.all.peak".
func (s *Stats) Figures() map[string]int64 {
	out := map[string]int64{"max_split_size": s.MaxSplitSize, "num_alloc_retries": s.AllocRetries,
		"num_device_alloc": s.DeviceAllocs, "num_device_free": s.DeviceFrees,
		"num_ooms": s.OOMs, "num_sync_all_streams": s.SyncAllStreams}
	stat := func(key string, v Stat) {
		out[key+".allocated"], out[key+".freed"] = v.Allocated, v.Freed
		out[key+".current"], out[key+".peak"] = v.Current, v.Peak
	}
	pools := func(key string, v PoolStat) {
		stat(key+".all", v.All)
		stat(key+".large_pool", v.Large)
		stat(key+".small_pool", v.Small)
	}
	pools("active", s.Active)
	pools("active_bytes", s.ActiveBytes)
	pools("allocated_bytes", s.AllocatedBytes)
	pools("allocation", s.Allocation)
	pools("inactive_split", s.InactiveSplit)
	pools("inactive_split_bytes", s.InactiveSplitBytes)
	stat("oversize_allocations", s.OversizeAllocations)
	stat("oversize_segments", s.OversizeSegments)
	pools("requested_bytes", s.RequestedBytes)
	pools("reserved_bytes", s.ReservedBytes)
	pools("segment", s.Segment)
	return out
}

// formatSize writes bytes as PyTorch's messages do: "392.00 MiB".
func formatSize(n int64) string {
	unit, name := int64(1), ""
	switch {
	case n <= 1024:
		return strconv.FormatInt(n, 10) + " bytes"
	case n <= 1<<20:
		unit, name = 1<<10, " KiB"
	case n <= 1<<30:
		unit, name = 1<<20, " MiB"
	default:
		unit, name = 1<<30, " GiB"
	}
	return strconv.FormatFloat(float64(n)/float64(unit), 'f', 2, 64) + name
}
