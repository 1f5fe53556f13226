package recording

import (
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// played plays a call with the storages that begin in it, and returns the index of their last event.
func (p *player) played(at int) int {
	events := p.rec.Events
	c := &p.rec.Calls[events[at].A]
	if p.layer = p.layerOf(c.Module); c.Module == NoModule && p.phase == timeline.Backward {
		p.layer = p.ofArguments(c)
	}
	p.site = p.siteOf(Site{c.Frame, c.Op})
	p.born = p.born[:0]
	last := at
	for last+1 < len(events) && events[last+1].Kind == Alloc {
		last++
		p.born = append(p.born, born{storage: events[last].A, bytes: events[last].Bytes})
	}
	if last+1 < len(events) && events[last+1].Kind == Sum {
		last++
		if len(p.born) == 1 {
			p.share(&p.born[0], events[last].A)
			return last
		}
	}
	if len(p.born) > 0 {
		p.run.Calls++
	}
	switch p.takes[c.Op] {
	case unknownKernel:
		if len(p.born) > 0 {
			p.run.Unknown[p.rec.Ops[c.Op]]++
			p.kernel(c, p.inPlace(c, last))
			return last
		}
	case reducingKernel:
		p.reduced(c)
	case timingKernel: // belongs to no layer
		p.layer = timeline.NoLayer
		for i := range p.born {
			b := &p.born[i]
			p.blocks[b.storage], p.users[b.storage] = p.request(b.bytes, timeline.Workspace, 0), 1
		}
		return last
	case takingKernel:
		p.kernel(c, p.inPlace(c, last))
		return last
	}
	if s := p.inPlace(c, last); s >= 0 {
		p.share(&p.born[0], s)
		return last
	}
	p.rest()
	return last
}

// rest makes the storages of the call that are not there yet.
func (p *player) rest() {
	for i := range p.born {
		if b := &p.born[i]; !b.made {
			p.alloc(b.storage, b.bytes)
			b.made = true
		}
	}
}

// kernel plays a call whose kernels take something. written is the storage in which its result is, -1 for one of its
// own.
func (p *player) kernel(c *Call, written int32) {
	p.describe(c)
	p.kernels.On(p.thread, p.stream)
	script := p.kernels.Call(&p.call)
	if written >= 0 {
		p.share(&p.born[0], written)
		p.born[0].made = true
	}
	for _, b := range p.fresh { // results that the script does not make are there before it begins
		made := b < 0
		for _, s := range script {
			made = made || (s.Do == kernels.Make || s.Do == kernels.Leave) && s.Which < len(p.fresh) && p.fresh[s.Which] == b
		}
		if !made {
			p.make(b, 0)
		}
	}
	p.taken = p.taken[:0]
	for _, s := range script {
		switch s.Do {
		case kernels.Take:
			p.taken = append(p.taken, p.request(s.Bytes, timeline.Workspace, s.Plan))
		case kernels.Keep:
			p.kept = append(p.kept, p.request(s.Bytes, timeline.Workspace, s.Plan))
		case kernels.Give:
			p.give(p.taken[s.Which])
		case kernels.Make, kernels.Leave:
			bytes := s.Bytes
			if s.Do == kernels.Leave {
				bytes = noBytes
			}
			if s.Which < len(p.fresh) && p.fresh[s.Which] >= 0 {
				p.make(p.fresh[s.Which], bytes)
			}
		case kernels.Empty:
			p.release()
		}
	}
	p.rest()
}

// noBytes is the size of a storage without a block.
const noBytes = -1

// make makes a storage of the call, of another size than recorded where bytes says one.
func (p *player) make(storage int32, bytes int64) {
	for i := range p.born {
		if b := &p.born[i]; b.storage == storage && !b.made {
			if bytes == 0 {
				bytes = b.bytes
			}
			p.alloc(storage, bytes)
			b.made = true
		}
	}
}

// describe puts a call into p.call, and which storages begin in it into p.fresh.
func (p *player) describe(c *Call) {
	op := p.rec.Ops[c.Op]
	p.call.Op, p.call.Overload = aten(op.Name), op.Overload
	values := p.rec.Args(c)
	p.args = p.args[:0]
	p.call.Args = p.call.Args[:0]
	for i := 0; i < len(values); i++ {
		v := values[i]
		if v.Kind() != List {
			p.call.Args = append(p.call.Args, p.arg(v))
			continue
		}
		from := len(p.args)
		for _, item := range values[i+1 : i+1+v.Len()] {
			p.args = append(p.args, p.arg(item))
		}
		i += v.Len()
		p.call.Args = append(p.call.Args, kernels.Arg{List: p.args[from:len(p.args):len(p.args)], Set: true})
	}
	p.call.Results, p.fresh = p.call.Results[:0], p.fresh[:0]
	for _, v := range p.rec.Results(c) {
		a := p.arg(v)
		storage := int32(-1)
		if a.Tensor != nil && a.Tensor.Host {
			a.Tensor = nil
		}
		if a.Tensor != nil {
			if s, _ := v.Storage(); len(p.born) > 0 && s >= p.born[0].storage {
				storage = s
			}
		}
		p.call.Results, p.fresh = append(p.call.Results, a.Tensor), append(p.fresh, storage)
	}
}

func (p *player) arg(v Value) kernels.Arg {
	switch v.Kind() {
	case None:
		return kernels.Arg{}
	case Tensor:
		_, on := v.Storage()
		return kernels.Arg{Tensor: p.tensor(v.Meta(), !on), Set: true}
	case Float:
		return kernels.Arg{Float: v.Float(), Int: int64(v.Float()), Set: true}
	case Int, Bool:
		return kernels.Arg{Float: v.Float(), Int: v.Int(), Set: true}
	}
	return kernels.Arg{Set: true}
}

// tensor describes a layout, once.
func (p *player) tensor(meta int32, host bool) *kernels.Tensor {
	i := 2 * meta
	if host {
		i++
	}
	if p.tensors[i] == nil {
		m := &p.rec.Metas[meta]
		p.tensors[i] = kernels.NewTensor(m.DType, m.Shape, m.Stride, host)
	}
	return p.tensors[i]
}
