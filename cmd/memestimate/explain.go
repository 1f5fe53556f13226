package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot/oom"
)

// What "explain" says, in JSON. Sizes are in bytes; one that the text does not say is null.
type (
	shareJSON struct {
		Who   string `json:"who"`
		Bytes int64  `json:"bytes"`
	}
	adviceJSON struct {
		What  string `json:"what"`
		Helps string `json:"helps"`      // yes, no, perhaps
		Bytes *int64 `json:"bytes_most"` // that it would make available at most
		Why   string `json:"why"`
	}
	explainJSON struct {
		Schema    string       `json:"schema"`
		Found     []string     `json:"found"` // what the text is
		GPU       string       `json:"gpu"`   // its number
		Tried     *int64       `json:"tried_bytes"`
		Total     *int64       `json:"total_bytes"`
		Free      *int64       `json:"free_bytes"`
		Allocated *int64       `json:"allocated_bytes"`
		Reserved  *int64       `json:"reserved_bytes"`
		Process   *int64       `json:"process_bytes"`
		Retries   *int64       `json:"alloc_retries"`
		Cause     string       `json:"cause"`
		Held      []shareJSON  `json:"held"`
		Advice    []adviceJSON `json:"advice"`
		Next      []string     `json:"next"`
	}
)

// longestPaste is how much text is read.
const longestPaste = 16 << 20

// explainCommand says why memory ran out, from what people paste.
func explainCommand(e *env) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "Explain a pasted out-of-memory message: who holds the memory, and what would help",
		Long: `Explain reads what PyTorch and nvidia-smi print when memory runs out, from a file or standard input:
"CUDA out of memory. Tried to allocate ..." of any PyTorch, torch.cuda.memory_summary(),
torch.cuda.memory_stats(), nvidia-smi's table, several of them in one text, or a memory snapshot. It
says who holds the memory, and whether expandable segments, ending other processes or a smaller batch
would help, and by how much at most.

Exit codes: 0 when the text was understood, 3 when not.`,
		Example: `  python train.py 2>&1 | memestimate explain
  memestimate explain train.log`,
		Args: atMost("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			arg := "-"
			if len(args) > 0 {
				arg = args[0]
			}
			if err := o.check(snapshotSource(e, arg)); err != nil {
				return err
			}
			text, taken, err := pasted(e, arg)
			if err != nil {
				return err
			}
			if taken {
				return showPasted(e, &o, cmd, arg)
			}
			p, ok := oom.ReadPaste(strings.ToValidUTF8(string(text), "?"))
			if !ok {
				return fail(exitInput, "%s: nothing in it says that memory ran out", e.nameOf(arg)).withHint(
					`paste the whole message, "CUDA out of memory. Tried to allocate ...", memory_summary() or nvidia-smi's table`)
			}
			r := explained(p)
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return report.JSON(w, r)
				}
				r.text(w, o.width(e))
				return nil
			})
		},
	}
	o.flags(cmd.Flags(), "text", "json")
	return cmd
}

// pasted reads a text, or reports that it is a snapshot, of which nothing has been taken then.
func pasted(e *env, arg string) (text []byte, snapshot bool, err error) {
	r, name, err := e.open(arg)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	in := bufio.NewReader(r)
	head, _ := in.Peek(4)
	if bytes.HasPrefix(head, []byte{0x80}) || bytes.HasPrefix(head, []byte{0x1f, 0x8b}) ||
		bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		if arg == "-" {
			e.stdin = in
		}
		return nil, true, nil
	}
	text, err = io.ReadAll(io.LimitReader(in, longestPaste+1))
	if err != nil {
		return nil, false, fail(exitInput, "%s: %w", name, cause(err))
	}
	if len(text) > longestPaste { // a log: what is said last counts
		return nil, false, fail(exitInput, "%s: longer than 16 MiB", name).withHint("tail -c 1M FILE | memestimate explain")
	}
	return text, false, nil
}

// showPasted explains a snapshot, as "snapshot show" does.
func showPasted(e *env, o *output, cmd *cobra.Command, arg string) error {
	show := snapshotShowCommand(e)
	show.SetContext(cmd.Context())
	if err := errors.Join(show.Flags().Set("format", o.format), show.Flags().Set("output", o.file)); err != nil {
		return usagef("%w", err)
	}
	return show.RunE(show, []string{arg})
}

// explained is what a paste says.
func explained(p *oom.Paste) *explainJSON {
	said := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	r := &explainJSON{Schema: explainForm, Found: p.Kinds, GPU: p.GPU, Tried: said(p.Tried), Total: said(p.Total),
		Free: said(p.Free), Allocated: said(p.Allocated), Reserved: said(p.Reserved), Process: said(p.Process),
		Retries: said(p.Retries), Cause: p.Says(report.Size), Held: []shareJSON{}, Advice: []adviceJSON{}}
	for _, h := range p.Held() {
		r.Held = append(r.Held, shareJSON(h))
	}
	for _, a := range p.Advise(report.Size) {
		joins := a.What == "expandable segments" && a.Helps != "no"
		if joins && p.Old { // PyTorch has them since 2.1
			a.What, a.Why = "max_split_size_mb", a.Why+"; better: PyTorch 2.1 or later and its expandable segments"
		}
		r.Advice = append(r.Advice, adviceJSON{a.What, a.Helps, said(a.Bytes), a.Why})
		if joins {
			conf := "expandable_segments:True"
			if p.Old {
				conf = "max_split_size_mb:128"
			}
			r.Next = append(r.Next, "PYTORCH_CUDA_ALLOC_CONF="+conf+" python train.py")
		}
		if a.What == "ending other processes" && a.Helps != "no" {
			r.Next = append(r.Next, "memestimate devices")
		}
	}
	if p.Total > 0 {
		r.Next = append(r.Next, fmt.Sprintf("memestimate --gpu %dMiB train.py", p.Total>>20))
	} else {
		r.Next = append(r.Next, "memestimate train.py")
	}
	if p.Tried >= 0 || p.Bare {
		r.Next = append(r.Next, "memestimate explain snapshot.pickle, of torch.cuda.memory._dump_snapshot()")
	}
	return r
}

// text writes the explanation for people.
func (r *explainJSON) text(w io.Writer, width int) {
	p := printer{w}
	fold := func(text string) {
		p.line("%s", strings.TrimRight(report.Fold(text, max(cmp.Or(width, helpWidth), 40)), "\n"))
	}
	on := ""
	if r.GPU != "" {
		on = " on GPU " + r.GPU
	}
	if r.Tried != nil {
		text := "out of memory" + on + ": " + report.Size(*r.Tried) + " asked for"
		if r.Free != nil && r.Total != nil {
			text += ", " + report.Size(*r.Free) + " free of " + report.Size(*r.Total)
		}
		fold(text)
	} else {
		fold(strings.Join(r.Found, ", ") + on)
	}
	fold("because: " + r.Cause)
	if len(r.Held) > 0 {
		p.line("")
	}
	for _, h := range r.Held {
		p.line("%12s  %s", report.Size(h.Bytes), h.Who)
	}
	if len(r.Advice) > 0 {
		p.line("")
		p.line("would it help?")
	}
	for _, a := range r.Advice {
		fold(fmt.Sprintf("%9s   %s: %s", a.Helps, a.What, a.Why))
	}
	if r.Retries != nil && *r.Retries > 0 {
		fold(fmt.Sprintf("the allocator gave its cache back %s before: the run was slow already", times(int(*r.Retries))))
	}
	p.line("")
	for i, n := range r.Next {
		label := "    "
		if i == 0 {
			label = "next"
		}
		p.line("%s  %s", label, n)
	}
}
