package snapshot

// A Sum is a number of things and their bytes.
type Sum struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

func (s *Sum) add(bytes int64) { s.Count++; s.Bytes += bytes }

// Figures are what a snapshot says about the moment it was taken.
type Figures struct {
	Allocated int64 // bytes of blocks in use: torch.cuda.memory_allocated
	Active    int64 // those, and blocks that wait for another stream
	Requested int64 // bytes that were asked for, of active blocks
	Reserved  int64 // bytes of all segments: torch.cuda.memory_reserved

	// InactiveSplit are the free blocks of segments that are in use (not of
	// expandable ones): memory that cannot be given back to CUDA.
	InactiveSplit Sum
	// LargestFree is the largest free block: the largest request that needs no
	// new segment.
	LargestFree int64

	Small, Large, Expandable Sum    // segments
	Blocks                   [3]Sum // by BlockState
}

// Segments is the number of segments.
func (f *Figures) Segments() int { return f.Small.Count + f.Large.Count + f.Expandable.Count }

// Fragmentation is the share of reserved memory that is not in use, 0 to 1.
func (f *Figures) Fragmentation() float64 {
	if f.Reserved == 0 {
		return 0
	}
	return 1 - float64(f.Active)/float64(f.Reserved)
}

// AllDevices stands for every device.
const AllDevices = -1

// Figures adds up the segments of a device, or of AllDevices.
func (s *Snapshot) Figures(device int) Figures {
	var f Figures
	for i := range s.Segments {
		g := &s.Segments[i]
		if device != AllDevices && g.Device != device {
			continue
		}
		f.Reserved += g.Total
		switch {
		case g.Expandable:
			f.Expandable.add(g.Total)
		case g.Small:
			f.Small.add(g.Total)
		default:
			f.Large.add(g.Total)
		}
		for k := range g.Blocks {
			b := &g.Blocks[k]
			f.Blocks[b.State].add(b.Size)
			switch b.State {
			case Inactive:
				f.LargestFree = max(f.LargestFree, b.Size)
				if len(g.Blocks) > 1 && !g.Expandable {
					f.InactiveSplit.add(b.Size)
				}
				continue
			case ActiveAllocated:
				f.Allocated += b.Size
			}
			f.Active += b.Size
			f.Requested += b.Requested
		}
	}
	return f
}

// Devices is one more than the largest device that has a segment or a trace
// with events.
func (s *Snapshot) Devices() int {
	n := 0
	for i := range s.Segments {
		n = max(n, s.Segments[i].Device+1)
	}
	for d, t := range s.Traces {
		if t.Len() > 0 {
			n = max(n, d+1)
		}
	}
	return n
}

// An ActionCount says how often an action occurs.
type ActionCount struct {
	Action Action
	Count  int
}

// Actions counts the events of a device, or of AllDevices, by action.
func (s *Snapshot) Actions(device int) []ActionCount {
	count := make([]int, int(NumActions)+len(s.actions))
	for d, t := range s.Traces {
		if device != AllDevices && d != device {
			continue
		}
		for _, e := range t.All() {
			count[e.Action]++
		}
	}
	var out []ActionCount
	for a, n := range count {
		if n > 0 {
			out = append(out, ActionCount{Action(a), n})
		}
	}
	return out
}
