package caching

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/hbollon/go-edlib"
)

const mib = 1 << 20

// Options are the settings of PYTORCH_CUDA_ALLOC_CONF that decide about memory.
// The zero value is PyTorch's default.
type Options struct {
	ExpandableSegments bool
	MaxSplitSize       int64   // bytes; blocks of this size and more are never split. 0: no limit
	MaxNonSplitRound   int64   // bytes by which such a block may exceed a request. 0: 20 MiB
	LargeSegmentSize   int64   // bytes of the segments for requests below 10 MiB. 0: 20 MiB
	GCThreshold        float64 // share of the allowed memory above which old cached blocks go; needs a limit. 0: never
	// MemoryFraction is the share of the device's memory that the allocator may
	// reserve; needs Config.Total. 0: all of it.
	MemoryFraction float64
	// RoundupDivisions are the steps between powers of two that sizes are rounded
	// up to, for sizes below 2 MiB, 4 MiB, ... 64 GiB. 0 and 1: none.
	RoundupDivisions [16]int64
}

// A confKey is a key and what reads its value.
type confKey struct {
	key string
	set func(o *Options, v value) error
}

// confKeys are the keys that the 2.11 native allocator knows, in the order in
// which help is given. Those without effect on device memory are read and checked
// for their form alone.
var confKeys = []confKey{
	{"expandable_segments", func(o *Options, v value) error { return v.boolean(&o.ExpandableSegments) }},
	{"max_split_size_mb", func(o *Options, v value) error { return v.mebibytes(&o.MaxSplitSize, 2) }},
	{"max_non_split_rounding_mb", func(o *Options, v value) error { return v.mebibytes(&o.MaxNonSplitRound, 20) }},
	{"large_segment_size_mb", func(o *Options, v value) error { return v.mebibytes(&o.LargeSegmentSize, 2) }},
	{"garbage_collection_threshold", func(o *Options, v value) error { return v.fraction(&o.GCThreshold, false) }},
	{"per_process_memory_fraction", func(o *Options, v value) error { return v.fraction(&o.MemoryFraction, true) }},
	{"roundup_power2_divisions", setRoundup},
	{"backend", func(_ *Options, v value) error {
		if v.text != "native" {
			return fmt.Errorf("%q is not modelled, wanted native", v.text)
		}
		return nil
	}},
	{"release_lock_on_cudamalloc", checkBool},
	{"pinned_use_cuda_host_register", checkBool},
	{"pinned_use_background_threads", checkBool},
	{"graph_capture_record_stream_reuse", checkBool},
	{"pinned_num_register_threads", func(_ *Options, v value) error { _, err := v.integer(); return err }},
	{"pinned_reserve_segment_size_mb", func(_ *Options, v value) error { _, err := v.integer(); return err }},
}

func checkBool(_ *Options, v value) error { return v.boolean(new(bool)) }

// setRoundup reads one number for all sizes, or a list [256:1,512:2,>:4] whose
// keys are upper interval bounds in MiB: the first entry also rules all sizes
// below it, ">" all above the last. AllocatorConfig.cpp parseRoundUpPower2Divisions.
func setRoundup(o *Options, v value) error {
	if v.list == nil {
		n, err := v.integer()
		if err != nil {
			return err
		}
		if n < 1 || n&(n-1) != 0 {
			return fmt.Errorf("%d, wanted a power of two", n)
		}
		for i := range o.RoundupDivisions {
			o.RoundupDivisions[i] = n
		}
		return nil
	}
	last := 0
	for i, item := range v.list {
		key, text, ok := strings.Cut(item, ":")
		if !ok {
			return fmt.Errorf("%q, wanted size:divisions", item)
		}
		n, err := value{text: text}.integer()
		if err != nil {
			return err
		}
		if n < 0 || n&(n-1) != 0 {
			return fmt.Errorf("%d divisions, wanted a power of two, or 0 for none", n)
		}
		if key == ">" {
			for j := last; j < len(o.RoundupDivisions); j++ {
				o.RoundupDivisions[j] = n
			}
			continue
		}
		size, err := value{text: key}.integer()
		if err != nil {
			return err
		}
		if size < 1 || size&(size-1) != 0 {
			return fmt.Errorf("size %d, wanted a power of two", size)
		}
		index := min(bits.Len64(uint64(size))-1, len(o.RoundupDivisions)-1)
		if i == 0 {
			for j := range index {
				o.RoundupDivisions[j] = n
			}
		}
		o.RoundupDivisions[index] = n
		last = index
	}
	return nil
}

// A value is what stands behind a key: one word, or a list in brackets.
type value struct {
	text string
	list []string // nil unless it is a list
}

func (v value) boolean(to *bool) error {
	if *to = v.text == "True"; v.list != nil || !*to && v.text != "False" {
		return fmt.Errorf("%s, wanted True or False", v)
	}
	return nil
}

func (v value) integer() (int64, error) {
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil || v.list != nil {
		return 0, fmt.Errorf("%s, wanted a whole number", v)
	}
	return n, nil
}

// fraction reads a number between 0 and 1, 1 itself included or not.
func (v value) fraction(to *float64, whole bool) (err error) {
	*to, err = strconv.ParseFloat(v.text, 64)
	if f := *to; err != nil || v.list != nil || !(f > 0 && (f < 1 || whole && f == 1)) {
		return fmt.Errorf("%s, wanted a number between 0 and 1", v)
	}
	return nil
}

// mebibytes reads a number of MiB, at least so many, as bytes.
func (v value) mebibytes(to *int64, least int64) error {
	n, err := v.integer()
	if err != nil {
		return err
	}
	if n < least {
		return fmt.Errorf("%d, wanted %d or more", n, least)
	}
	*to = min(n, maxRequest/mib) * mib
	return nil
}

func (v value) String() string {
	if v.list != nil {
		return "a list"
	}
	return strconv.Quote(v.text)
}

// ParseOptions reads the syntax of PYTORCH_CUDA_ALLOC_CONF, such as
// "expandable_segments:True,roundup_power2_divisions:[256:1,512:2,>:4]". An empty
// string is the default. An unknown key is an error that names the nearest one.
func ParseOptions(conf string) (Options, error) {
	var o Options
	for rest := strings.Join(strings.Fields(conf), ""); rest != ""; {
		key, after, ok := strings.Cut(rest, ":")
		if k, _, comma := strings.Cut(key, ","); comma {
			key, ok = k, false
		}
		set := slices.IndexFunc(confKeys, func(k confKey) bool { return k.key == key })
		if set < 0 {
			return Options{}, fmt.Errorf("allocator options: unknown key %q, perhaps %s", key, nearestKey(key))
		}
		if !ok || after == "" {
			return Options{}, fmt.Errorf("allocator options: %s has no value, wanted %s:VALUE", key, key)
		}
		var v value
		if inner, isList := strings.CutPrefix(after, "["); isList {
			body, tail, closed := strings.Cut(inner, "]")
			if !closed {
				return Options{}, fmt.Errorf("allocator options: %s: the list has no closing ]", key)
			}
			v.list = strings.Split(body, ",")
			if tail != "" && tail[0] != ',' {
				return Options{}, fmt.Errorf("allocator options: %s: %q after the list, wanted a comma", key, tail)
			}
			rest = strings.TrimPrefix(tail, ",")
		} else {
			v.text, rest, _ = strings.Cut(after, ",")
		}
		if err := confKeys[set].set(&o, v); err != nil {
			return Options{}, fmt.Errorf("allocator options: %s: %w", key, err)
		}
	}
	// A block that may be split must not be smaller than the segments it is cut from.
	if least := (&Config{Options: o}).largeSegment(); o.MaxSplitSize > 0 && o.MaxSplitSize < least {
		return Options{}, fmt.Errorf("allocator options: max_split_size_mb: %d, wanted %d or more", o.MaxSplitSize/mib,
			least/mib)
	}
	return o, nil
}

// nearestKey returns the known key with the smallest edit distance.
func nearestKey(key string) string {
	if len(key) > 64 {
		key = key[:64]
	}
	best, least := "", 1<<30
	for i := range confKeys {
		if d := edlib.OSADamerauLevenshteinDistance(key, confKeys[i].key); d < least {
			best, least = confKeys[i].key, d
		}
	}
	return best
}
