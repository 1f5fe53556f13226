package slurm

import (
	"fmt"
	"slices"
	"strings"
)

// unended are the states of a job that may still change.
var unended = []string{"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD",
	"REQUEUE_FED", "RESIZING", "STAGE_OUT", "SIGNALING", "STOPPED", "SPECIAL_EXIT"}

// ExitCode reads what "scontrol show job -o" says of a job, or of all jobs of an array: the highest exit code, 128+n
// where signal n ended one, once all have ended. A job that ended otherwise, such as for its time, has 1 at least.
func ExitCode(out string) (code int, ended bool) {
	lines := 0
	for line := range strings.Lines(out) {
		state, exit := "", ""
		for w := range strings.FieldsSeq(line) {
			if v, ok := strings.CutPrefix(w, "JobState="); ok {
				state = v
			}
			if v, ok := strings.CutPrefix(w, "ExitCode="); ok {
				exit = v
			}
		}
		if state == "" {
			continue
		}
		lines++
		if slices.Contains(unended, state) {
			return 0, false
		}
		own, signal := 0, 0
		fmt.Sscanf(exit, "%d:%d", &own, &signal)
		switch {
		case signal != 0:
			own = 128 + signal&0x7f
		case own < 0 || own > 255: // the system has eight bits, and a failure stays one
			own = max(own&0xff, 1)
		case own == 0 && state == "CANCELLED":
			own = 128 + 15
		case own == 0 && state != "COMPLETED":
			own = 1
		}
		code = max(code, own)
	}
	return code, lines > 0
}
