package recording

import "github.com/memestimate/memestimate/simulate/gpu"

// hostGPUs is how many GPUs of one host NCCL's sizes are taken to hold for; a host has no more in most clusters.
const hostGPUs = 8

// An NCCL is what a recording says of NCCL's surroundings.
type NCCL struct {
	gpu.NCCLSettings
	Host int32 // ranks of the job on each host
}

// A Communicator is one that the program's process groups made.
type Communicator struct {
	Ranks           []int32 // of the job
	Ring            bool    // it ran a collective
	sends, receives map[int32]bool
}

// Beyond reports whether a communicator has ranks on other hosts than the recorded one, or more than a host has GPUs.
func (r *Recording) Beyond(c *Communicator) bool {
	for _, rank := range c.Ranks {
		if !r.near(rank) {
			return true
		}
	}
	return false
}

// near reports whether a rank is on the recorded one's host.
func (r *Recording) near(rank int32) bool {
	host := max(min(r.NCCL.Host, hostGPUs), 1)
	return rank/host == int32(r.Rank)/host
}

// Connected returns the communicators with what the recorded rank has connected on its host.
func (r *Recording) Connected() []gpu.Communicator {
	out := make([]gpu.Communicator, len(r.Communicators))
	for i := range r.Communicators {
		c := &r.Communicators[i]
		out[i] = gpu.Communicator{Ranks: len(c.Ranks), Ring: c.Ring}
		for rank := range c.sends {
			if r.near(rank) {
				out[i].Sends++
			}
		}
		for rank := range c.receives {
			if r.near(rank) {
				out[i].Receives++
			}
		}
	}
	return out
}

// nccl reads the settings of NCCL's environment.
func (d *decoder) nccl() {
	n := NCCL{Host: d.small("the number of ranks on a host")}
	n.Buffer, n.Channels = d.integer("a setting of NCCL"), d.integer("a setting of NCCL")
	n.Direct = d.flag()
	d.rec.NCCL = &n
}

// communicator reads the ranks of one.
func (d *decoder) communicator() {
	if d.rec.NCCL == nil {
		d.fail("a communicator before the line nccl")
	}
	d.rec.Communicators = append(d.rec.Communicators, Communicator{Ranks: d.ranks()})
}

// connect reads what a communicator connects.
func (d *decoder) connect() {
	n := d.index(len(d.rec.Communicators), "communicator")
	how, ranks := d.oneOf([]string{"ring", "send", "receive"}, "a connection"), d.ranks()
	if d.err != nil {
		return
	}
	c := &d.rec.Communicators[n]
	switch how {
	case 0:
		c.Ring = true
	case 1:
		c.sends = with(c.sends, ranks)
	case 2:
		c.receives = with(c.receives, ranks)
	}
}

// with adds ranks to a set.
func with(set map[int32]bool, ranks []int32) map[int32]bool {
	if set == nil {
		set = map[int32]bool{}
	}
	for _, rank := range ranks {
		set[rank] = true
	}
	return set
}

// ranks reads a list of ranks of the job.
func (d *decoder) ranks() (list []int32) {
	d.open()
	for d.more() {
		list = append(list, d.small("a rank"))
	}
	d.token()
	return list
}
