package cluster

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
	d := yaml.NewDecoder(strings.NewReader(string(b)))
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
