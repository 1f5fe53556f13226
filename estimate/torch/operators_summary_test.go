package torch

import (
	"fmt"
	"slices"
	"strings"
)

// A summary says how the rows compare with the measurements.
type summary struct {
	n, plain, spaces       int     // operators, those without workspaces, passes of convolutions
	tensors, sizes, passes float64 // shares: same tensors of all; exact sizes of the plain ones; workspaces within a tenth
	text                   string  // testdata/operators.md
}

const summaryHead = `# Operators: what one call asks of the allocator

Each row of ` + "`estimate/torch`" + ` says what a PyTorch operator allocates, keeps and frees, forward and backward. Here the
rows are held against what PyTorch 2.11 (CUDA 13.0, cuDNN 9.19, NVIDIA H200) really asked for when it ran the operator
alone: single calls, whole blocks, and 2,075 swept shapes.
` + "`go test ./estimate/torch -run 'TestOperators$' -operators.write`" +
	` makes this table; the same test fails when a figure gets
worse.

- *tensors*: the same tensors are asked for in the same order, the workspaces of cuDNN left out;
- *sizes*: every allocation is the same to the byte, in order, forward and backward, workspaces included;
- *events*: every free is in its place as well;
- *workspaces*: of the passes that can take one (forward, gradient of the input, gradient of the weight), those where it
  is predicted within 10 %, or within 8 KiB.

| family | cases | tensors | sizes | events | workspaces |
|---|---|---|---|---|---|
`

func summarize(all []verdict) summary {
	var s summary
	var b strings.Builder
	b.WriteString(summaryHead)
	var families []string
	for _, v := range all {
		if !slices.Contains(families, v.family) {
			families = append(families, v.family)
		}
	}
	var tensors, sizes, near, convs, whole int
	for _, f := range families {
		var n, ft, fs, fe, spaces, fn int
		for _, v := range all {
			if v.family != f {
				continue
			}
			n++
			ft += oneIf(v.tensors)
			fs += oneIf(v.sizes)
			fe += oneIf(v.events)
			spaces += v.spaces
			if strings.HasPrefix(f, "conv") {
				convs++
				whole += oneIf(v.tensors && v.near == v.spaces)
			}
			fn += v.near
		}
		share := ""
		if spaces > 0 {
			share = fmt.Sprintf("%.1f %% of %d", 100*float64(fn)/float64(spaces), spaces)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %s |\n", strings.ReplaceAll(f, "_", " "), n, ft, fs, fe, share)
		s.n += n
		tensors += ft
		if slices.Contains(workspaceFamilies, f) {
			if strings.HasPrefix(f, "conv") {
				s.spaces += spaces
				near += fn
			}
		} else {
			s.plain += n
			sizes += fs
		}
	}
	s.tensors, s.sizes, s.passes = float64(tensors)/float64(s.n), float64(sizes)/float64(s.plain),
		float64(near)/float64(s.spaces)
	fmt.Fprintf(&b, `
Of the %d operators that take no library's workspace %.1f %% are exact in every size; of all %d, %.1f %% ask for the
same tensors in the same order. Of the %d passes of convolutions %.1f %% have their workspace within 10 %%, and of the
%d convolutions %.1f %% have it in every pass. What decides these workspaces was fitted to the swept shapes among
others; what it gives for shapes that it has not seen is in simulate/kernels/testdata/README.md.

## What is not exact

`,
		s.plain, 100*s.sizes, s.n, 100*s.tensors, s.spaces, 100*s.passes, convs, 100*float64(whole)/float64(max(convs, 1)))
	b.WriteString("| case | why |\n|---|---|\n")
	for _, v := range all {
		switch why := explained[v.name]; {
		case !v.events && why != "":
			fmt.Fprintf(&b, "| %s | %s |\n", v.name, why)
		case !v.tensors:
			fmt.Fprintf(&b, "| %s | the workspace, which outlives the reserve's allocation, is off by more than 10 %% |\n",
				v.name)
		}
	}
	b.WriteString(summaryTail)
	s.text = b.String()
	return s
}

const summaryTail = `| the other convolutions and recurrent modules whose sizes are not exact | the workspace alone |

Measured too, but without a row to hold against: cosine similarity and label smoothing, which exported models show as
their parts or not at all, and activation checkpointing.
`
