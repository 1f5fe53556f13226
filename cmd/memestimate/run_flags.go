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
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/spelling"
)

// A sizeValue is a flag that holds bytes.
type sizeValue uint64

func (v *sizeValue) String() string {
	if *v == 0 {
		return ""
	}
	return report.Size(int64(*v))
}
func (v *sizeValue) Type() string { return "SIZE" }
func (v *sizeValue) Set(s string) error {
	n, err := spelling.Size(s)
	if err == nil {
		*v = sizeValue(n)
	}
	return err
}

// A limitValue is a flag that holds the bytes to keep within. None is no limit that one could mean.
type limitValue uint64

func (v *limitValue) String() string { return (*sizeValue)(v).String() }
func (v *limitValue) Type() string   { return "SIZE" }
func (v *limitValue) Set(s string) error {
	err := (*sizeValue)(v).Set(s)
	if err == nil && *v == 0 {
		return fmt.Errorf("%q leaves no memory to ask for, want a size such as 24GiB", s)
	}
	return err
}

// A waitValue is the flag --wait[=TIMEOUT].
type waitValue struct {
	set     bool
	timeout time.Duration
}

func (v *waitValue) String() string {
	if v.timeout == 0 {
		return ""
	}
	return v.timeout.String()
}
func (v *waitValue) Type() string { return "TIMEOUT" }
func (v *waitValue) Set(s string) error {
	*v = waitValue{set: true}
	if s == "forever" {
		return nil
	}
	d, err := time.ParseDuration(s)
	if n, errN := strconv.ParseFloat(s, 64); errN == nil && n < 1e9 { // seconds, as timeout(1)
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time such as 90s, 30m or 2h", s)
	}
	v.timeout = d
	return nil
}

// A rangeValue is a number of GPUs, or a range of numbers: N or N-M. Its zero value is 1.
type rangeValue struct{ from, most int }

func (v *rangeValue) least() int { return max(v.from, 1) }

func (v *rangeValue) String() string {
	switch {
	case v.from == 0:
		return ""
	case v.most > v.from:
		return fmt.Sprintf("%d-%d", v.from, v.most)
	}
	return strconv.Itoa(v.from)
}
func (v *rangeValue) Type() string { return "N" }
func (v *rangeValue) Set(s string) error {
	low, high, isRange := strings.Cut(s, "-")
	from, err := strconv.Atoi(low)
	most := from
	if isRange && err == nil {
		most, err = strconv.Atoi(high)
	}
	if err != nil || from < 1 || most < from {
		return fmt.Errorf("%q is not a number of GPUs such as 2, or 2-4", s)
	}
	*v = rangeValue{from, most}
	return nil
}

// A percentValue is a flag from 0 to 100, with or without a percent sign.
type percentValue struct {
	set     bool
	percent int
}

func (v *percentValue) String() string {
	if !v.set {
		return ""
	}
	return strconv.Itoa(v.percent)
}
func (v *percentValue) Type() string { return "PERCENT" }
func (v *percentValue) Set(s string) error {
	n, err := strconv.Atoi(strings.TrimSuffix(s, "%"))
	if err != nil || n < 0 || n > 100 {
		return fmt.Errorf("%q is not a percentage from 0 to 100", s)
	}
	*v = percentValue{true, n}
	return nil
}

// A choice is the flags that say which GPUs a command may have.
type choice struct {
	minFree     sizeValue
	minTotal    sizeValue
	utilization percentValue
	count       rangeValue
	policy      string
	exclude     []string
	gpuType     string
	share       bool
}

func (c *choice) flags(fs *pflag.FlagSet) {
	c.policy = "best-fit"
	addFlags(fs, []flagRow{
		{"min-free", 0, &c.minFree, "pass over GPUs with less available, however little is needed"},
		{"min-total", 0, &c.minTotal, "pass over GPUs with less memory in all"},
		{"max-utilization", 0, &c.utilization, "pass over GPUs that are busy for more percent of the time"},
		{"count n", 0, &c.count, "how many GPUs, or at least and at most so many, as 2-4 (default 1)"},
		{"policy", 0, &c.policy, "which of the GPUs that fit: best-fit (leaves the larger ones free), most-free, first"},
		{"exclude", 0, &c.exclude,
			"a GPU not to take: its number, UUID or the start of it, or a part of its name; may be given again"},
		{"gpu-type", 0, &c.gpuType, "take only GPUs whose name matches this regular expression, in any case"},
		{"share", 0, &c.share, "accept a GPU beside others who share, when all fit"},
	})
}

// list asks for the devices, and for how busy they are where that matters.
func (c *choice) list(s *devices.Session) ([]devices.Device, error) {
	ds, err := s.List()
	if err == nil && c.utilization.set {
		s.Observe(ds)
	}
	return ds, err
}

// request returns the flags as the library takes them.
func (c *choice) request(e *env) (devices.Request, error) {
	r := devices.Request{
		MinFree: uint64(c.minFree), MinTotal: uint64(c.minTotal), Count: c.count.least(), AtMost: c.count.most,
		Exclude: c.exclude, Share: c.share, Visible: visibleDevices(e), PCIOrder: pciOrder(e),
		Held: e.getenv(devices.HeldVariable),
	}
	if c.utilization.set {
		r.MaxUtilization = &c.utilization.percent
	}
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
	if v == "" && !isSet("CUDA_VISIBLE_DEVICES") {
		return nil
	}
	return &v
}

func isSet(name string) bool {
	_, ok := os.LookupEnv(name)
	return ok
}
