//go:build !nocrosscheck && !js

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxgo"
	"github.com/memestimate/memestimate/report"
)

// What onnx-go may take for a model: it spells out what a file says once and uses often, and its decoder has no limit
// of its own. 200,000 nodes take it 1 GB and two seconds.
var crossCheckLimits = allowance{Memory: 2 << 30, Time: time.Minute}

// An allowance is what a process may take.
type allowance struct {
	Memory uint64 // in bytes
	Time   time.Duration
}

// A crossCheck is onnx-go reading a model in a process of its own, where it can be ended.
type crossCheck struct {
	in   source
	may  allowance
	cmd  *exec.Cmd
	pipe io.WriteCloser // what is read of a stream goes there too
	out  bytes.Buffer
	said bytes.Buffer
}

// A secondReading is what that process writes to its standard output.
type secondReading struct {
	Report onnxgo.Report
	Error  string `json:",omitempty"`
}

// newCrossCheck prepares the process, and starts it where the model is a stream, which can be read only once.
func newCrossCheck(in *source) (*crossCheck, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fail(exitInput, "--cross-check: this program's own file: %w", err)
	}
	c := &crossCheck{in: *in, may: crossCheckLimits}
	c.cmd = exec.Command(self, secondReaderArg, strconv.FormatUint(c.may.Memory, 10), c.may.Time.String())
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &head{b: &c.said, room: 64 << 10}
	if !in.streamed() {
		return c, nil
	}
	if c.pipe, err = c.cmd.StdinPipe(); err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, fail(exitInput, "--cross-check: %w", err)
	}
	in.also = &deaf{w: c.pipe}
	return c, nil
}

// stop ends the process of a model that cannot be read.
func (c *crossCheck) stop() {
	if c.cmd.Process != nil {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	}
}

// compare waits for the process. That the two readers disagree is an error: one of them has another model than the one
// in the file.
func (c *crossCheck) compare(m *onnxload.Model) ([]estimate.Note, error) {
	if c.pipe != nil {
		c.pipe.Close()
	} else {
		if f, ok := fileOf(m); ok {
			c.cmd.Stdin = f // the file that was read, whatever has its name by now
		} else {
			c.cmd.Args = append(c.cmd.Args, c.in.arg)
		}
		if err := c.cmd.Start(); err != nil {
			return nil, fail(exitInput, "--cross-check: %w", err)
		}
	}
	late := time.AfterFunc(c.may.Time+10*time.Second, func() { c.cmd.Process.Kill() }) // it ends itself before
	err := c.cmd.Wait()
	late.Stop()
	var v secondReading
	if err == nil {
		err = json.Unmarshal(c.out.Bytes(), &v)
	}
	if err != nil {
		return nil, fail(exitInput, "%s: --cross-check: %s", quoteArg(c.in.arg), c.end(err))
	}
	if v.Error != "" {
		return nil, fail(exitInput, "%s: %s", quoteArg(c.in.arg), v.Error)
	}
	return []estimate.Note{{Level: estimate.Info, Text: agreement(v.Report)}}, nil
}

// end says why there is none.
func (c *crossCheck) end(err error) string {
	var exit *exec.ExitError
	said, _, _ := strings.Cut(strings.TrimSpace(c.said.String()), "\n")
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == secondReaderTime:
		return fmt.Sprintf("onnx-go was ended, it took more than %v for this model", c.may.Time)
	case errors.As(err, &exit) && exit.ExitCode() == secondReaderMemory, refusedMemory(said):
		return fmt.Sprintf("onnx-go was ended, it took more than %s of memory for this model",
			report.Size(int64(c.may.Memory)))
	case said != "":
		return fmt.Sprintf("onnx-go's process: %v: %s", err, said)
	}
	return fmt.Sprintf("onnx-go's process: %v", err)
}

// refusedMemory reports whether a Go program that ended so was refused memory by the system. Where its runtime does not
// look whether it got some, it ends on a signal; a fault of any other code is a panic, which says so first. A thread
// that finds no memory for its stack fails with EAGAIN, as glibc has it (allocate_stack in nptl/allocatestack.c).
func refusedMemory(said string) bool {
	return strings.Contains(said, "out of memory") || strings.Contains(said, "cannot allocate") ||
		strings.Contains(said, "pthread_create failed") || strings.HasPrefix(said, "SIGSEGV: ")
}

// agreement says what was compared.
func agreement(rep onnxgo.Report) string {
	text := fmt.Sprintf("onnx-go reads the same model: %s nodes in %s", report.Count(int64(rep.Nodes)),
		count(rep.Graphs, "graph"))
	if rep.Calls > 0 {
		text += fmt.Sprintf(", %s of functions", count(rep.Calls, "call"))
	}
	if !memoryIsLimited {
		text += "; this system has no limit for its memory, which was watched instead"
	}
	return text
}

// fileOf returns the open file that a model was read from.
func fileOf(m *onnxload.Model) (*os.File, bool) {
	r, _ := m.Input()
	f, ok := r.(*os.File)
	return f, ok
}

// A deaf writer goes on when nobody listens any more: the process at the other end may have been ended.
type deaf struct {
	w    io.Writer
	done bool
}

// Write never fails.
func (d *deaf) Write(p []byte) (int, error) {
	if !d.done {
		_, err := d.w.Write(p)
		d.done = err != nil
	}
	return len(p), nil
}

// A head keeps the first bytes that are written to it.
type head struct {
	b    *bytes.Buffer
	room int
}

// Write never fails.
func (h *head) Write(p []byte) (int, error) {
	h.b.Write(p[:min(len(p), h.room-h.b.Len())])
	return len(p), nil
}
