package spelling

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// leastBare is the least number without a unit that is taken for bytes. A smaller one is no amount of GPU memory in
// bytes, and a larger one none in GiB.
const leastBare = 1 << 20

// Size reads an amount of memory in bytes: "24GiB", "24 gib", "24G" and "24Gi" are 24 * 1024^3, as in Slurm and
// Kubernetes' Gi; "24GB" is 24 * 1000^3; "800000000" is bytes. A small number without a unit is refused: 24 bytes is
// not meant. go-humanize takes "24G" for 24 * 1000^3, and "24" for 24 bytes.
func Size(typed string) (int64, error) {
	text := strings.TrimSpace(typed)
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	number, unit := text, ""
	if end >= 0 {
		number, unit = text[:end], strings.ToUpper(strings.TrimSpace(text[end:]))
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, &Error{fmt.Sprintf("%q is not a size such as 24GiB or 800MB", typed), ""}
	}
	if unit == "" && n > 0 && n < leastBare {
		return 0, &Error{fmt.Sprintf("%q has no unit: %s GiB, or %s bytes?", typed, number, number),
			fmt.Sprintf("write %sGiB, or %sB", number, number)}
	}
	scale, err := scaleOf(unit)
	if err != nil {
		return 0, &Error{fmt.Sprintf("%q has the unit %q, want B, KiB, MiB, GiB, TiB or KB, MB, GB, TB", typed,
			strings.TrimSpace(text[max(end, 0):])), ""}
	}
	if n *= scale; n >= math.MaxInt64 {
		return 0, &Error{fmt.Sprintf("%q is too large", typed), ""}
	}
	return int64(n), nil
}

// scaleOf returns how many bytes a unit is, in upper case.
func scaleOf(unit string) (float64, error) {
	if unit == "" || unit == "B" || unit == "BYTES" {
		return 1, nil
	}
	prefix, base := strings.TrimSuffix(unit, "B"), 1024.0
	if binary, ok := strings.CutSuffix(prefix, "I"); ok {
		prefix = binary
	} else if prefix != unit {
		base = 1000
	}
	power := strings.Index("KMGTPE", prefix)
	if power < 0 || len(prefix) != 1 {
		return 0, fmt.Errorf("unknown unit %q", unit)
	}
	return math.Pow(base, float64(power+1)), nil
}
