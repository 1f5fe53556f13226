package estimate

import (
	"bytes"

	json "github.com/go-json-experiment/json/v1"

	"github.com/memestimate/memestimate/simulate/caching"
)

// What a Fit may be held against.
const (
	Budget      = "budget"       // a size that somebody set
	Capacity    = "gpu"          // a GPU's memory
	MemoryLimit = "memory-limit" // what the allocator may reserve
)

// A Fit says whether a run fits a size. Sizes are bytes.
type Fit struct {
	Limit string `json:"limit"` // Budget, Capacity or MemoryLimit
	Name  string `json:"name,omitempty"`
	Bytes int64  `json:"limit_bytes"`
	Need  int64  `json:"need_bytes"` // what was compared with it
	// which figure of the peak that is: device_bytes, likely_bytes, safe_bytes or reserved_bytes
	By   string `json:"by"`
	Fits bool   `json:"fits"`
}

// Judge holds the run against the sizes that its step sets, and against a budget for the device
// memory unless that is 0. Where the device memory counts, it is that with this confidence which must fit.
func (r *Report) Judge(s Step, budget int64, c Confidence) {
	if r.Peak == nil {
		return
	}
	need, by := r.Peak.At(c)
	if s.MemoryLimit > 0 {
		r.Fits = append(r.Fits, Fit{Limit: MemoryLimit, Bytes: s.MemoryLimit, Need: r.Peak.Reserved, By: "reserved_bytes",
			Fits: r.OOM == nil})
	}
	if s.Limited {
		r.Fits = append(r.Fits, Fit{Limit: Capacity, Name: s.GPU.Name, Bytes: s.GPU.Memory, Need: need, By: by,
			Fits: r.OOM == nil && need <= s.GPU.Memory})
	}
	if budget > 0 {
		r.Fits = append(r.Fits, Fit{Limit: Budget, Bytes: budget, Need: need, By: by, Fits: r.OOM == nil && need <= budget})
	}
}

// OK reports whether the run fits all that it was held against.
func (r *Report) OK() bool {
	for _, f := range r.Fits {
		if !f.Fits {
			return false
		}
	}
	return true
}

// Statistics are the figures of torch.cuda.memory_stats, in the order of their keys. As
// JSON they are one object.
type Statistics []caching.Figure

// MarshalJSON writes the figures as an object, in their order.
func (s Statistics) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(f.Key)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, err
		}
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads what MarshalJSON wrote; the order of the keys is that of the text.
func (s *Statistics) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	*s = Statistics{}
	for d.More() {
		var f caching.Figure
		key, err := d.Token()
		if err != nil {
			return err
		}
		f.Key, _ = key.(string)
		if err := d.Decode(&f.Value); err != nil {
			return err
		}
		*s = append(*s, f)
	}
	return nil
}
