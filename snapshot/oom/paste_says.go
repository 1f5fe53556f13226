package oom

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// An Advice is something that may help after a pasted text, and by how much.
type Advice struct {
	What  string
	Helps string // yes, no or perhaps
	Bytes int64  // that it would make available at most; unsaid where that is not known
	Why   string
}

// A Share is who holds a part of the device.
type Share struct {
	Who   string
	Bytes int64
}

// unexplained is what nobody named holds. Without the process.s own figure its context is in it.
func (p *Paste) unexplained() int64 {
	if p.Total < 0 || p.Free < 0 {
		return unsaid
	}
	left := p.Total - p.Free - max(p.Reserved, 0)
	left -= p.others()
	if p.Process >= 0 {
		left -= max(p.Process-max(p.Reserved, 0), 0)
	}
	return max(left, 0)
}

// others adds up the other processes.
func (p *Paste) others() (sum int64) {
	for _, o := range p.Others {
		sum += o
	}
	return sum
}

// fragments are cached in blocks of which a part is in use; whole free blocks PyTorch has given back before it fails.
func (p *Paste) fragments() int64 {
	if p.Reserved < 0 || p.Allocated < 0 {
		return unsaid
	}
	return max(p.Reserved-p.Allocated, 0)
}

// Held says who holds the device, the largest first.
func (p *Paste) Held() (all []Share) {
	add := func(who string, bytes int64) {
		if bytes > 0 {
			all = append(all, Share{who, bytes})
		}
	}
	add("tensors of this process", p.Allocated)
	add("cached by PyTorch, between tensors", p.fragments())
	if p.Process >= 0 && p.Reserved >= 0 {
		add("this process, not PyTorch: CUDA's context, libraries, NCCL", p.Process-p.Reserved)
	}
	add("other processes", p.others())
	rest := "nobody named: other processes, or another container's"
	if p.Process < 0 {
		rest = "not PyTorch: this process's CUDA context, and other processes"
	}
	if left := p.unexplained(); left > 64<<20 {
		add(rest, left)
	}
	add("free", p.Free)
	slices.SortStableFunc(all, func(a, b Share) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return all
}

// short is by how much the request was too large for what is free; unsaid without a request.
func (p *Paste) short() int64 {
	if p.Tried < 0 || p.Free < 0 {
		return unsaid
	}
	return max(p.Tried-p.Free, 0)
}

// Segments that PyTorch asks CUDA for: a small request takes all of one.
const (
	smallRequest, smallSegment = 1 << 20, 2 << 20
	largeSegment               = 20 << 20
)

// barred reports whether a limit of the process stood against the request, not the device.
func (p *Paste) barred() bool {
	segment := max(p.Tried, largeSegment)
	if p.Tried <= smallRequest {
		segment = smallSegment
	}
	return p.Allowed >= 0 && p.Reserved >= 0 && p.Reserved+segment > p.Allowed
}

// Says tells the cause in one sentence; size writes bytes for people.
func (p *Paste) Says(size func(int64) string) string {
	f, o := p.fragments(), p.others()
	switch {
	case p.Bare:
		return "CUDA itself had no memory left, outside PyTorch's allocator: a context, a library or a kernel asked"
	case p.Tried < 0 && p.Allocated < 0:
		return "how the device's memory is held; what failed is not in the text"
	case p.Tried < 0:
		return "what PyTorch held then; what failed is not in the text"
	case p.Total >= 0 && p.Tried > p.Total:
		return fmt.Sprintf("one tensor of %s was asked for, and the whole device has %s", size(p.Tried), size(p.Total))
	case p.barred():
		return fmt.Sprintf("the process may take %s (set_per_process_memory_fraction) and has %s: the device is not full",
			size(p.Allowed), size(p.Reserved))
	case p.Free >= p.Tried:
		return fmt.Sprintf("the device had %s free, more than the %s that were asked for: no piece that large can be had, "+
			"or the driver keeps it", size(p.Free), size(p.Tried))
	case f >= p.short() && 20*f >= p.Reserved && f > 0: // less would only let it fail a little later
		return fmt.Sprintf("fragments: %s are cached between tensors, and the request lacked %s", size(f), size(p.short()))
	case o > 0 && o >= p.short() && o > max(p.Allocated, 0):
		return fmt.Sprintf("other processes hold %s of the device's %s", size(o), size(p.Total))
	case p.Allocated >= 0:
		return fmt.Sprintf("the program's own tensors take %s, and %s more were asked for: %s too much", size(p.Allocated),
			size(p.Tried), size(max(p.short(), 1)))
	case p.Free >= 0:
		return fmt.Sprintf("%s were asked for and %s are free", size(p.Tried), size(p.Free))
	}
	return fmt.Sprintf("%s were asked for; what was free is not in the text", size(p.Tried))
}

// Advise says what would help, and by how much at most.
func (p *Paste) Advise(size func(int64) string) (all []Advice) {
	short, f := p.short(), p.fragments()
	judge := func(bytes int64) string {
		switch {
		case short < 0 || bytes < 0:
			return "perhaps"
		case bytes >= short && short > 0:
			return "yes"
		}
		return "no"
	}
	if p.barred() {
		return []Advice{{"a larger fraction of the device for the process", "yes", p.Free,
			"torch.cuda.set_per_process_memory_fraction stands against the request"}}
	}
	whole := p.Total >= 0 && p.Tried > p.Total
	if f >= 0 {
		a := Advice{"expandable segments", "no", f, "only " + size(f) + " are cached between tensors"}
		if short >= 0 && f >= short && !whole && f > 0 {
			a.Helps, a.Why = "perhaps", "what is cached between tensors would do, if it can be put together"
		} else if short < 0 {
			a.Helps, a.Why = "perhaps", "so much is cached between tensors"
		}
		if p.Private > 0 {
			a.Why += "; of what is allocated " + size(p.Private) + " are in private pools of CUDA graphs"
		}
		all = append(all, a)
	}
	if o := p.others(); o > 0 {
		a := Advice{"ending other processes", judge(o), o, "they hold " + size(o)}
		if whole {
			a.Helps = "no"
		}
		all = append(all, a)
	}
	if p.Allocated > 0 && p.Tried >= 0 && short >= 0 {
		need := p.Allocated + p.Tried
		a := Advice{What: "a smaller batch", Helps: "perhaps", Bytes: unsaid}
		switch room := need - short; {
		case p.Free >= p.Tried:
			a.Why = "what is free was more than what was asked for"
		default:
			a.Why = fmt.Sprintf("%s must go of %s: a batch of %.1f %% or less, if all of that grew with it, and parameters and "+
				"optimizer do not", size(short), size(need), math.Floor(float64(room)/float64(need)*1000)/10)
		}
		all = append(all, a)
	}
	return all
}
