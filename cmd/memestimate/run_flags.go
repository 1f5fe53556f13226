package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/devices"
)

// A waiting is the value of --wait[=TIMEOUT].
type waiting struct {
	set     bool
	timeout time.Duration // 0 is forever
}

func readWait(s string) (waiting, error) {
	if s == "forever" {
		return waiting{set: true}, nil
	}
	d, err := time.ParseDuration(s)
	if n, errN := strconv.ParseFloat(s, 64); errN == nil && n < 1e9 { // seconds, as timeout(1)
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return waiting{}, fmt.Errorf("%q is not a time such as 90s, 30m or 2h", s)
	}
	return waiting{true, d}, nil
}

func waitFlag(to *waiting) *parsed[waiting] {
	return &parsed[waiting]{to: to, kind: "TIMEOUT", read: readWait, show: func(w waiting) string {
		if w.timeout == 0 {
			return ""
		}
		return w.timeout.String()
	}}
}

// A gpuCount is a number of GPUs, or a range of numbers. The zero gpuCount is 1.
type gpuCount struct{ from, most int }

func (c gpuCount) least() int { return max(c.from, 1) }

// gpuCountFlag takes N or N-M.
func gpuCountFlag(to *gpuCount) *parsed[gpuCount] {
	return &parsed[gpuCount]{to: to, kind: "N", read: func(s string) (gpuCount, error) {
		low, high, isRange := strings.Cut(s, "-")
		from, err := strconv.Atoi(low)
		most := from
		if isRange && err == nil {
			most, err = strconv.Atoi(high)
		}
		if err != nil || from < 1 || most < from {
			return gpuCount{}, fmt.Errorf("%q is not a number of GPUs such as 2, or 2-4", s)
		}
		return gpuCount{from, most}, nil
	}, show: func(c gpuCount) string {
		if c.most > c.from {
			return fmt.Sprintf("%d-%d", c.from, c.most)
		}
		return unlessZero(c.from)
	}}
}

// percentFlag takes 0 to 100, with or without a percent sign.
func percentFlag(to **int) *parsed[*int] {
	return &parsed[*int]{to: to, kind: "PERCENT", read: func(s string) (*int, error) {
		n, err := strconv.Atoi(strings.TrimSuffix(s, "%"))
		if err != nil || n < 0 || n > 100 {
			return nil, fmt.Errorf("%q is not a percentage from 0 to 100", s)
		}
		return &n, nil
	}, show: func(n *int) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(*n)
	}}
}

// A choice is the flags that say which GPUs a command may have.
type choice struct {
	devices.Request
	count   gpuCount
	policy  string
	gpuType string
}

func (c *choice) flags(fs *pflag.FlagSet) {
	c.policy = "best-fit"
	addFlags(fs, []flagRow{
		{"min-free", 0, bytesFlag(&c.MinFree), "pass over GPUs with less available, however little is needed"},
		{"min-total", 0, bytesFlag(&c.MinTotal), "pass over GPUs with less memory in all"},
		{"max-utilization", 0, percentFlag(&c.MaxUtilization), "pass over GPUs that are busy for more percent of the time"},
		{"count n", 0, gpuCountFlag(&c.count), "how many GPUs, or at least and at most so many, as 2-4 (default 1)"},
		{"policy", 0, &c.policy, "which of the GPUs that fit: best-fit (leaves the larger ones free), most-free, first"},
		{"exclude", 0, &c.Exclude,
			"a GPU not to take: its number, UUID or the start of it, or a part of its name; may be given again"},
		{"gpu-type", 0, &c.gpuType, "take only GPUs whose name matches this regular expression, in any case"},
		{"share", 0, &c.Share, "accept a GPU beside others who share, when all fit"},
	})
}

// list asks for the devices, and for how busy they are where that matters.
func (c *choice) list(s *devices.Session) ([]devices.Device, error) {
	ds, err := s.List()
	if err == nil && c.MaxUtilization != nil {
		s.Observe(ds)
	}
	return ds, err
}

// request returns the flags as the library takes them.
func (c *choice) request(e *env) (devices.Request, error) {
	r := c.Request
	r.Count, r.AtMost = c.count.least(), c.count.most
	r.Visible, r.PCIOrder, r.Held = visibleDevices(e), pciOrder(e), e.getenv(devices.HeldVariable)
	var err error
	if r.Policy, err = devices.ParsePolicy(c.policy); err != nil {
		return r, usagef("--%w", err)
	}
	if c.gpuType != "" {
		if r.Type, err = regexp.Compile("(?i)" + c.gpuType); err != nil {
			return r, usagef("--gpu-type %q: %w", c.gpuType, err)
		}
	}
	return r, nil
}

// pciOrder tells whether CUDA counts GPUs as NVML does.
func pciOrder(e *env) bool { return e.getenv("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" }

// tellVisible says on stderr what is odd about CUDA_VISIBLE_DEVICES.
func tellVisible(e *env, ds []devices.Device) {
	if o := e.getenv("CUDA_DEVICE_ORDER"); o != "" && o != "PCI_BUS_ID" && o != "FASTEST_FIRST" {
		fmt.Fprintf(e.stderr, "memestimate: CUDA_DEVICE_ORDER: CUDA knows no order %s, and shows no GPU at all\n",
			quoteArg(o))
	}
	if v := visibleDevices(e); v != nil {
		for _, n := range devices.ParseVisible(*v, ds, pciOrder(e)).Notes {
			fmt.Fprintf(e.stderr, "memestimate: %s\n", oneLine(n))
		}
	}
}

// visibleDevices returns CUDA_VISIBLE_DEVICES, or nil when it is not set: an empty one
// hides all GPUs.
func visibleDevices(e *env) *string {
	v := e.getenv("CUDA_VISIBLE_DEVICES")
	if _, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); v == "" && !set {
		return nil
	}
	return &v
}
