package budget

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/spelling"
)

// A Growth is how much a figure may grow: by a share of what it was, or by bytes.
type Growth struct {
	Percent float64
	Bytes   int64
	Share   bool // Percent counts, not Bytes
}

// ParseGrowth reads "5%" or a size such as "200MiB".
func ParseGrowth(s string) (Growth, error) {
	if number, ok := strings.CutSuffix(strings.TrimSpace(s), "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || p < 0 || p > 1e6 || math.IsNaN(p) {
			return Growth{}, fmt.Errorf("%q is not a share such as 5%%", s)
		}
		return Growth{Percent: p, Share: true}, nil
	}
	n, err := spelling.Size(s)
	var meant *spelling.Error
	if errors.As(err, &meant) && meant.Hint() != "" {
		return Growth{}, err
	}
	if err != nil {
		return Growth{}, fmt.Errorf("%q is neither a share such as 5%% nor a size such as 200MiB", s)
	}
	return Growth{Bytes: n}, nil
}

// Limit returns the most that a figure may be that was before, in bytes.
func (g Growth) Limit(before int64) int64 {
	grow := g.Bytes
	if g.Share {
		grow = int64(math.Min(float64(before)*g.Percent/100, math.MaxInt64/2))
	}
	if before > math.MaxInt64-grow {
		return math.MaxInt64
	}
	return before + grow
}

// Allows reports whether a figure may go from before to after.
func (g Growth) Allows(before, after int64) bool { return after <= g.Limit(before) }

// String writes the growth as ParseGrowth reads it.
func (g Growth) String() string {
	if g.Share {
		return strconv.FormatFloat(g.Percent, 'g', -1, 64) + "%"
	}
	return report.Size(g.Bytes)
}
