package recording

// maxGPUs bounds the GPUs of one process, each of which is answered by itself: no host has more that see each other.
const maxGPUs = 16

// gpus returns how many GPUs the recorded process used.
func (h *Header) gpus() int32 { return max(h.GPUs, 1) }

// On returns what a recording has of one of its GPUs, as a recording of that one: its storages, the calls that made or
// read them, and what concerns all.
func (r *Recording) On(gpu int32) *Recording {
	out := *r
	out.GPUs, out.Events = 0, make([]Event, 0, len(r.Events))
	at := make([]int32, r.Storages)
	for i := range r.Events {
		if e := &r.Events[i]; e.Kind == Alloc {
			at[e.A] = e.B
		}
	}
	for _, e := range r.Events {
		switch e.Kind {
		case CallEvent:
			if on := r.gpuOf(&r.Calls[e.A], at); on >= 0 && on != gpu {
				continue
			}
		case Alloc, Free, Resize, Is, RecordStream, Sum:
			if at[e.A] != gpu {
				continue
			}
		case Allocated: // of all GPUs
			continue
		}
		out.Events = append(out.Events, e)
	}
	return &out
}

// gpuOf returns the GPU that a call runs on: that of its results, or where it makes none, of the first tensor that it
// is given; -1 for a call of the host.
func (r *Recording) gpuOf(c *Call, at []int32) int32 {
	for _, values := range [][]Value{r.Results(c), r.Args(c)} {
		for _, v := range values {
			if v.Kind() == Tensor {
				if s, on := v.Storage(); on {
					return at[s]
				}
			}
		}
	}
	return -1
}
