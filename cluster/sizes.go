// Package cluster knows what a cluster calls its GPUs, and how much memory one of that name has. The packages below it
// hand a job's need over to the engine that places it: Slurm, Kubernetes, or whoever asks Prometheus. Sizes are bytes.
package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// Sizes says how much memory a GPU of a name has. The zero Sizes knows what names themselves tell.
type Sizes struct {
	table map[string]uint64 // what the site says, by lower-case name
}

// Named returns the names of the site's table, by size and then in the order of the alphabet.
func (s Sizes) Named() []string {
	return slices.SortedFunc(maps.Keys(s.table), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.table[a], s.table[b]), cmp.Compare(a, b))
	})
}

// A Size is the memory of a GPU of some name.
type Size struct {
	Bytes   uint64
	Guessed bool // read off a number in the name
	Family  bool // the least of several GPUs that the name could mean
	MIG     bool // a part of a GPU, of which CUDA shows a process one only
}

var (
	profile = pattern(`(?:^|[^0-9])[1-7]g\.(\d{1,3})gb`)
	labeled = pattern(`(?:^|[^0-9.])(\d{1,3})gi?b?$`)
	after   = pattern(`(?:[-_:]|vram|mem)(\d{1,3})$`)
)

// pattern compiles an expression when it is first asked for.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// gibs are the sizes that GPUs are sold with, in GiB: another number at the end of a name is part of a model's.
var gibs = []int{4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 44, 46, 48, 64, 71, 72, 80, 94, 96, 128, 141, 142, 144,
	180, 186, 188, 192, 256, 279, 288}

// Of returns the memory of a GPU of that name: from the site's table, as a GPU known by name, or read off the name, as
// of "a100-80", "vram40", "3g.40gb". A name of several, such as "a100", has at least what the smallest of them has. A
// size in a name is the nominal one. What CUDA has of it is 93 % at worst of the GPUs known (T4: 15,360 MiB less what
// the driver keeps, of 16 GiB; L40S: 45,487 of 48), so as much is taken.
func (s Sizes) Of(name string) (Size, bool) {
	name = strings.ToLower(name)
	mig := profile().FindStringSubmatch(name)
	if n, ok := s.table[name]; ok {
		return Size{Bytes: n, MIG: mig != nil}, true
	}
	if mig == nil && strings.ContainsAny(name, "0123456789") {
		if all := gpu.Family(name); len(all) > 0 {
			least := slices.MinFunc(all, func(a, b gpu.Device) int { return cmp.Compare(a.Memory, b.Memory) })
			return Size{Bytes: uint64(least.Memory), Family: len(all) > 1}, true
		}
	}
	for _, m := range [][]string{mig, labeled().FindStringSubmatch(name), after().FindStringSubmatch(name)} {
		if m == nil {
			continue
		}
		if n, err := strconv.Atoi(m[1]); err == nil && slices.Contains(gibs, n) {
			return Size{Bytes: uint64(n) << 30 / 100 * 93, Guessed: true, MIG: mig != nil}, true
		}
	}
	return Size{}, false
}

// maxTable bounds a site's table.
const maxTable = 1 << 20

// ReadSizes reads a site's table: a YAML mapping "gpus" from names (of a GRES type, a feature, a product) to sizes
// that parse understands, such as "79GiB".
func ReadSizes(r io.Reader, parse func(string) (int64, error)) (Sizes, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxTable+1))
	if err != nil {
		return Sizes{}, err
	}
	if len(b) > maxTable {
		return Sizes{}, fmt.Errorf("larger than %d bytes", maxTable)
	}
	var file struct {
		GPUs map[string]string `yaml:"gpus"`
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return Sizes{}, err
	}
	s := Sizes{table: make(map[string]uint64, len(file.GPUs))}
	for _, name := range slices.Sorted(maps.Keys(file.GPUs)) {
		text := file.GPUs[name]
		n, err := parse(text)
		if err != nil || n <= 0 {
			return Sizes{}, fmt.Errorf("gpus: %s: %q is not a size such as 79GiB", name, text)
		}
		lower := strings.ToLower(name)
		if _, twice := s.table[lower]; twice {
			return Sizes{}, fmt.Errorf("gpus: %s is there twice: names are alike in upper and lower case", name)
		}
		s.table[lower] = uint64(n)
	}
	return s, nil
}
