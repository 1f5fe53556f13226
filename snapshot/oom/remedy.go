package oom

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/snapshot/replay"
)

// A Remedy is something that may help, tried by replaying the recording up to
// the failure.
type Remedy struct {
	What  string `json:"what"`       // for people
	Conf  string `json:"alloc_conf"` // the allocator settings to try; empty for others
	Site  string `json:"where"`      // the line of the program that it is about; empty for others
	Helps string `json:"helps"`      // yes, no, or perhaps: what may be reserved is not known well enough
}

// remedies tries what may help.
func (f *Failure) remedies(s *snapshot.Snapshot, h *snapshot.History) error {
	low, high, ok := replay.Capacity(h)
	if !ok {
		return nil
	}
	conf := s.AllocConf
	if _, err := caching.ParseOptions(conf); err != nil {
		// A newer PyTorch may have settings that are not known here. All else can be told without them.
		f.Untried = fmt.Sprintf("its settings are not understood: %v", err)
		return nil
	}
	// Under its own settings the replay must fail as the recording did. Where it
	// does not, what was cached before the recording decides, and nobody knows.
	control, err := f.helps(s, h.Device, replay.Trial{Conf: conf}, low, low+1)
	if err != nil {
		return err
	}
	f.Unsure = control == "yes"
	try := func(r Remedy, t replay.Trial) (string, error) {
		helps, err := f.helps(s, h.Device, t, low, high)
		if err != nil {
			return "", err
		}
		if helps == "yes" && f.Unsure {
			helps = "perhaps"
		}
		r.Helps = helps
		f.Remedies = append(f.Remedies, r)
		return helps, nil
	}
	if !strings.Contains(conf, "expandable_segments:True") {
		with := join(conf, "expandable_segments:True")
		if _, err := try(Remedy{What: "expandable segments", Conf: with}, replay.Trial{Conf: with}); err != nil {
			return err
		}
	}
	if !strings.Contains(conf, "max_split_size_mb") && !strings.Contains(conf, "expandable_segments:True") {
		with := join(conf, "max_split_size_mb:128")
		if _, err := try(Remedy{What: "not splitting blocks from 128 MiB on", Conf: with},
			replay.Trial{Conf: with}); err != nil {
			return err
		}
	}
	for _, x := range f.Free {
		if x.Stream != f.First.Stream {
			if _, err := try(Remedy{What: "one stream for all allocations"},
				replay.Trial{Conf: conf, OneStream: true}); err != nil {
				return err
			}
			break
		}
	}
	rounds := s.Rounds(h.Device, f.First.Event)
	first := 0
	if len(rounds) > 0 {
		first = rounds[len(rounds)-1]
	}
	shares := []int64{2, 4, 8}
	if f.Cause == Leak {
		shares = nil // it would run out all the same, later
	}
	for _, share := range shares {
		r := Remedy{What: fmt.Sprintf("1/%d of the batch, if what the failing round makes shrinks with it", share)}
		helps, err := try(r, replay.Trial{Conf: conf, Request: shrunk(s, first, share)})
		if err != nil {
			return err
		}
		if helps == "yes" {
			break
		}
		if share < 8 {
			f.Remedies = f.Remedies[:len(f.Remedies)-1]
		}
	}
	for i := range f.Held[:min(len(f.Held), 2)] {
		x := &f.Held[i]
		gone := make(map[int64]bool, len(x.addrs))
		for _, a := range x.addrs {
			gone[a] = true
		}
		r := Remedy{What: "freeing what " + x.Name() + " holds", Site: x.Site}
		if _, err := try(r, replay.Trial{Conf: conf, Gone: gone, GoneAt: f.First.Event}); err != nil {
			return err
		}
	}
	return nil
}

func join(conf, more string) string {
	if conf == "" {
		return more
	}
	return conf + "," + more
}

// shrunk divides what is asked for from an event on by the forward and backward
// passes: parameters and the state of optimizers do not shrink with a batch.
func shrunk(s *snapshot.Snapshot, first int, share int64) func(int, *snapshot.Event) int64 {
	shrinks := map[snapshot.StackID]bool{}
	return func(i int, e *snapshot.Event) int64 {
		if i < first {
			return e.Size
		}
		yes, ok := shrinks[e.Stack]
		if !ok {
			p := s.Phase(e.Stack)
			yes = p == timeline.Forward.String() || p == timeline.Loss.String() || p == timeline.Backward.String()
			shrinks[e.Stack] = yes
		}
		if !yes {
			return e.Size
		}
		return (e.Size + share - 1) / share
	}
}

// helps says whether the request succeeds in a trial. What the process could
// reserve lies from low on and below high.
func (f *Failure) helps(s *snapshot.Snapshot, device int, t replay.Trial, low, high int64) (string, error) {
	t.Until = f.First.Event
	for _, c := range []struct {
		capacity int64
		yes      string
	}{{low, "yes"}, {high - 1, "perhaps"}} {
		t.Capacity = c.capacity
		r, err := replay.Try(s, device, &t)
		if err != nil {
			return "", err
		}
		if f.survives(r) {
			return c.yes, nil
		}
	}
	return "no", nil
}

// survives says whether the replay came past the failure. Requests that had
// failed before it are not its matter.
func (f *Failure) survives(r *replay.Result) bool {
	for _, x := range r.Failed {
		if x.Event == f.First.Event || !x.Recorded {
			return false
		}
	}
	return true
}
