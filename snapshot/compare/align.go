package compare

// A hunk is a part of two courses that differs: the first has lost what is in its range, the second has it instead.
type hunk struct{ a, b, endA, endB int }

const (
	// again is how many requests in a row have to be the same for two courses to be together again. Fewer would take any
	// two tensors of one size for one another.
	again = 6

	// ahead is how far each side is searched for that. An operator that one side lacks is a few dozen requests.
	ahead = 300
)

// align lays two sequences beside each other and returns where they differ, in order. It goes through both at once;
// where they part it skips as little as lets them go on alike, and then looks for what is common to the parts skipped.
// Where nothing near is alike, it goes on with the next mark that both have: marks are places, by number, that are
// known to belong together.
func align(a, b []int64, marksA, marksB []int) []hunk {
	var out []hunk
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		if i < len(a) && j < len(b) && a[i] == b[j] {
			i++
			j++
			continue
		}
		endA, endB, ok := together(a, b, i, j)
		if !ok {
			endA, endB = nextMark(marksA, marksB, i, j, len(a), len(b))
		}
		out = common(out, a, b, hunk{i, j, endA, endB})
		i, j = endA, endB
	}
	return out
}

// mostCells bounds the table of common: both sides of what together finds, and more.
const mostCells = 1 << 18

// common adds to the list what of a hunk is left when the longest sequence that both sides have in common is taken out.
func common(out []hunk, a, b []int64, h hunk) []hunk {
	n, m := h.endA-h.a, h.endB-h.b
	if n == 0 || m == 0 || n*m > mostCells {
		return append(out, h)
	}
	a, b = a[h.a:h.endA], b[h.b:h.endB]
	length := make([]uint16, (n+1)*(m+1)) // of the longest from i and j on
	at := func(i, j int) *uint16 { return &length[i*(m+1)+j] }
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if a[i] == b[j] {
				*at(i, j) = *at(i+1, j+1) + 1
			} else {
				*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			}
		}
	}
	now := hunk{h.a, h.b, h.a, h.b}
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && j < m && a[i] == b[j]:
			if now.a < now.endA || now.b < now.endB {
				out = append(out, now)
			}
			i, j = i+1, j+1
			now = hunk{h.a + i, h.b + j, h.a + i, h.b + j}
		case j == m || i < n && *at(i+1, j) >= *at(i, j+1):
			i++
			now.endA++
		default:
			j++
			now.endB++
		}
	}
	if now.a < now.endA || now.b < now.endB {
		out = append(out, now)
	}
	return out
}

// together finds the nearest places from which both sequences go on alike, or end.
func together(a, b []int64, i, j int) (endA, endB int, ok bool) {
	for skip := 1; skip <= 2*ahead; skip++ {
		for n := max(0, skip-ahead); n <= min(skip, ahead); n++ {
			if p, q := i+n, j+skip-n; p <= len(a) && q <= len(b) && alike(a[p:], b[q:]) {
				return p, q, true
			}
		}
	}
	return 0, 0, false
}

func alike(a, b []int64) bool {
	n := min(len(a), len(b), again)
	if n < again && len(a) != len(b) {
		return false // what is left of one is too little to tell
	}
	for k := range n {
		if a[k] != b[k] {
			return false
		}
	}
	return true
}

// nextMark is the next pair of marks beyond both places, or the ends.
func nextMark(marksA, marksB []int, i, j, endA, endB int) (int, int) {
	for k := range min(len(marksA), len(marksB)) {
		if marksA[k] > i && marksB[k] > j {
			return marksA[k], marksB[k]
		}
	}
	return endA, endB
}
