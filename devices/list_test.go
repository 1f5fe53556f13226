package devices

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

const gib = 1 << 30

// scripted is a library whose answers the test writes down.
type scripted struct {
	gpus     []*scriptedGPU
	countErr error
	block    chan struct{} // count waits for it, when not nil
	closed   bool

	afterRestart *struct{} // not nil: a new connection works
}

func (l *scripted) driver() (string, error) { return "580.95.05", nil }
func (l *scripted) count() (int, error) {
	if l.block != nil {
		<-l.block
	}
	return len(l.gpus), l.countErr
}
func (l *scripted) gpu(i int) (gpu, error) { return l.gpus[i], l.gpus[i].errs["handle"] }
func (l *scripted) shutdown()              { l.closed = true }
func (l *scripted) restart() error {
	if l.afterRestart != nil {
		l.countErr, l.afterRestart = nil, nil
		return nil
	}
	return codeDriverNotLoaded
}

type scriptedGPU struct {
	id, model, bus string
	mem            memory
	procs          []Process
	mode           ComputeMode
	mig            bool
	parts          []*scriptedGPU
	gi, ci         int
	does           *Activity
	silent         chan struct{} // activity waits for it, when not nil
	errs           map[string]error
	block          chan struct{} // memory waits for it, when not nil
}

func (g *scriptedGPU) uuid() (string, error)  { return g.id, g.errs["uuid"] }
func (g *scriptedGPU) name() (string, error)  { return g.model, g.errs["name"] }
func (g *scriptedGPU) busID() (string, error) { return g.bus, g.errs["bus"] }
func (g *scriptedGPU) memory() (memory, error) {
	if g.block != nil {
		<-g.block
	}
	return g.mem, g.errs["memory"]
}
func (g *scriptedGPU) processes() ([]Process, error)     { return g.procs, g.errs["procs"] }
func (g *scriptedGPU) computeMode() (ComputeMode, error) { return g.mode, g.errs["mode"] }
func (g *scriptedGPU) migMode() (bool, error)            { return g.mig, g.errs["mig"] }
func (g *scriptedGPU) instances() ([]gpu, error) {
	var parts []gpu
	for _, p := range g.parts {
		parts = append(parts, p)
	}
	return parts, g.errs["instances"]
}
func (g *scriptedGPU) ids() (int, int, error) { return g.gi, g.ci, g.errs["ids"] }

func (g *scriptedGPU) activity() Activity {
	if g.silent != nil {
		<-g.silent
	}
	if g.does == nil {
		return unobserved
	}
	return *g.does
}

// card returns a scripted GPU with an 80 GiB card's memory.
func card(id string, used uint64) *scriptedGPU {
	return &scriptedGPU{id: id, model: "NVIDIA A100-SXM4-80GB", bus: "00000000:3B:00.0",
		mem: memory{80 * gib, used, 79*gib - used, gib}, errs: map[string]error{}}
}

func list(t *testing.T, gpus ...*scriptedGPU) []Device {
	t.Helper()
	ds, err := newSession(&scripted{gpus: gpus}).List()
	must.OK(t, err)
	return ds
}

// TestListOneFault makes each query of the middle one of three GPUs fail in turn: the others stay as they
// are, and the GPU is dropped only where it cannot be used without the answer.
func TestListOneFault(t *testing.T) {
	for _, tt := range []struct {
		call   string
		err    error
		reason string // "": still usable
		note   string
	}{
		{"handle", codeLost, "GPU is lost", ""},
		{"handle", codePower, "the GPU lacks external power", ""},
		{"uuid", codeUnknown, "it has no UUID to name it by: unknown error of the NVIDIA driver", "UUID"},
		{"name", codeUnknown, "", "name: unknown error"},
		{"bus", codeNotSupported, "", "PCI address: not supported"},
		{"memory", codeLost, "memory: GPU is lost", ""},
		{"memory", codeResetRequired, "memory: GPU requires a reset", ""},
		{"memory", codeNotSupported, "memory: not supported", ""},
		{"memory", Code(77), "memory: NVML error 77", ""},
		{"procs", codeNoPermission, "", "processes: no permission"},
		{"procs", codeLost, "GPU is lost", "processes: GPU is lost"},
		{"mode", codeLost, "GPU is lost", "compute mode: GPU is lost"},
		{"mig", codeLost, "GPU is lost", "MIG mode: GPU is lost"},
		{"mig", codeResetRequired, "GPU requires a reset", "MIG mode: GPU requires a reset"},
		{"bus", codeLost, "GPU is lost", "PCI address: GPU is lost"},
		{"mode", codeNoFunction, "", "compute mode: the driver is too old"},
		{"mig", codeNotSupported, "", ""},
		{"mig", codeUnknown, "", "MIG mode: unknown error"},
	} {
		bad := card("GPU-b", 0)
		bad.errs[tt.call] = tt.err
		ds := list(t, card("GPU-a", 0), bad, card("GPU-c", 3*gib))
		if len(ds) != 3 || !ds[0].Usable() || !ds[2].Usable() || ds[2].Used != 3*gib {
			t.Errorf("%s fails with %v: %d devices, neighbours %q and %q, want both usable", tt.call, tt.err, len(ds),
				ds[0].Reason, ds[2].Reason)
			continue
		}
		if ds[1].Reason != tt.reason {
			t.Errorf("%s fails with %v: reason %q, want %q", tt.call, tt.err, ds[1].Reason, tt.reason)
		}
		if notes := strings.Join(ds[1].Notes, "; "); !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
			t.Errorf("%s fails with %v: notes %q, want %q", tt.call, tt.err, notes, tt.note)
		}
		if _, err := json.Marshal(ds); err != nil {
			t.Error(err)
		}
	}
}

func TestSenselessMemory(t *testing.T) {
	for _, m := range []memory{
		{},
		{total: gib, free: 2 * gib},
		{total: gib, used: 2 * gib},
		{total: gib, reserved: ^uint64(0)},
	} {
		c := card("GPU-a", 0)
		c.mem = m
		if d := list(t, c)[0]; d.Usable() || d.HasMemory || !strings.Contains(d.Reason, "make no sense") {
			t.Errorf("%+v: usable %v, reason %q", m, d.Usable(), d.Reason)
		}
	}
}

func TestUnifiedMemory(t *testing.T) {
	for _, tt := range []struct {
		name    string
		unified bool
	}{{"NVIDIA GB10", true}, {"Orin (nvgpu)", true}, {"GRID A100-4C", false}} {
		c := card("GPU-a", 0)
		c.model, c.errs["memory"] = tt.name, codeNotSupported
		s := newSession(&scripted{gpus: []*scriptedGPU{c}})
		s.host = func() (uint64, uint64, error) { return 128 * gib, 100 * gib, nil }
		ds, err := s.List()
		must.OK(t, err)
		if d := ds[0]; d.Unified != tt.unified || d.Usable() != tt.unified || tt.unified &&
			(d.Total != 128*gib || d.Free != 100*gib || d.Used != 28*gib) {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
}

func TestModes(t *testing.T) {
	compute := []Process{{PID: 7, Kind: "compute", Known: true, Bytes: gib}}
	drawing := []Process{{PID: 8, Kind: "graphics"}}
	for _, tt := range []struct {
		mode     ComputeMode
		procs    []Process
		procsErr error
		reason   string
		occupied bool
	}{
		{ModeDefault, compute, nil, "", false},
		{ModeProhibited, nil, nil, "compute mode is prohibited", false},
		{ModeExclusiveProcess, nil, nil, "", false},
		{ModeExclusiveProcess, drawing, nil, "", false},
		{ModeExclusiveProcess, compute, nil, "exclusive-process mode, and a process has it", true},
		{ModeExclusiveProcess, nil, codeNoPermission, "exclusive-process mode, and the driver does not list its processes",
			false},
	} {
		c := card("GPU-a", 0)
		c.mode, c.procs, c.errs["procs"] = tt.mode, tt.procs, tt.procsErr
		if d := list(t, c)[0]; d.Reason != tt.reason || d.Occupied != tt.occupied {
			t.Errorf("%v with %v: reason %q, occupied %v, want %q, %v", tt.mode, tt.procs, d.Reason, d.Occupied, tt.reason,
				tt.occupied)
		}
	}
}

func TestMIG(t *testing.T) {
	c := card("GPU-a", 0)
	c.mig = true
	for i := range 2 {
		p := card(fmt.Sprintf("MIG-%d", i), uint64(i)*gib)
		p.gi, p.ci, p.errs["mode"] = 7+i, 0, codeInvalidArgument
		c.parts = append(c.parts, p)
	}
	ds := list(t, c, card("GPU-b", 0))
	var got []string
	for _, d := range ds {
		got = append(got, fmt.Sprintf("%s %s %v %q", d.Label(), d.UUID, d.MIG, d.Reason))
	}
	want := []string{
		`GPU 0 GPU-a on "MIG is on: only its instances can be used"`,
		`GPU 0 MIG 7/0 MIG-0 instance ""`,
		`GPU 0 MIG 8/0 MIG-1 instance ""`,
		`GPU 1 GPU-b off ""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if ds[1].Parent != "GPU-a" || ds[1].Mode != ModeDefault {
		t.Errorf("instance: parent %q, mode %v", ds[1].Parent, ds[1].Mode)
	}

	c.mode, c.procs = ModeProhibited, nil
	if ds := list(t, c); ds[1].Reason != "compute mode is prohibited" {
		t.Errorf("an instance of a prohibited GPU: %q", ds[1].Reason)
	}
	c.parts = nil
	if ds := list(t, c); len(ds) != 1 || ds[0].Reason != "MIG is on, and it has no instances" {
		t.Errorf("MIG without instances: %+v", ds)
	}
	c.errs["instances"] = codeNoPermission
	if ds := list(t, c); len(ds) != 1 || !strings.Contains(strings.Join(ds[0].Notes, ""), "MIG instances: no permission") {
		t.Errorf("MIG without permission: %+v", ds)
	}
}

// TestHangs holds one GPU's query back: the listing comes at its limit with the others, later
// ones come at once, and the GPU is back when the query is. The clock is that of synctest, which
// goes on only when nothing else can: how busy the machine is makes no difference.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := card("GPU-b", 0)
		bad.block = make(chan struct{})
		lib := &scripted{gpus: []*scriptedGPU{card("GPU-a", 0), bad, card("GPU-c", 0)}}
		s := newSession(lib)
		for i := range 3 {
			start := time.Now()
			ds, err := s.List()
			must.OK(t, err)
			if len(ds) != 3 || !ds[0].Usable() || ds[1].Reason != "the driver did not answer in 10s" || !ds[2].Usable() {
				t.Fatalf("devices %+v", ds)
			}
			want := s.limit
			if i > 0 {
				want = 0
			}
			if took := time.Since(start); took != want {
				t.Errorf("listing %d took %v, want %v", i+1, took, want)
			}
		}
		if s.Close(); lib.closed {
			t.Error("NVML was shut down under a query that hangs")
		}
		close(bad.block)
		synctest.Wait()
		ds, err := s.List()
		must.OK(t, err)
		if !ds[1].Usable() {
			t.Errorf("the GPU did not come back: %+v", ds[1])
		}
		if s.Close(); !lib.closed {
			t.Error("NVML was not shut down")
		}
	})
}

func TestCountFails(t *testing.T) {
	lib := &scripted{countErr: codeUnknown}
	if _, err := newSession(lib).List(); !errors.Is(err, codeUnknown) {
		t.Errorf("got %v, want %v", err, codeUnknown)
	}
	lib = &scripted{countErr: codeUninitialized, afterRestart: new(struct{})}
	if ds, err := newSession(lib).List(); err != nil || len(ds) != 0 {
		t.Errorf("a driver that was loaded anew: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		lib := &scripted{block: make(chan struct{})}
		defer close(lib.block)
		if _, err := newSession(lib).List(); err == nil || !strings.Contains(err.Error(), "did not answer in 10s") {
			t.Errorf("got %v, want that the driver did not answer", err)
		}
	})
}

func TestCodes(t *testing.T) {
	for _, c := range []Code{4, 8, 9, 12, 15, 17, 18, 999} {
		e := &InitError{Code: c}
		if e.Hint() == "" || strings.Contains(e.Error(), "\n") || !strings.Contains(e.Error(), fmt.Sprint(int(c))) ||
			!errors.Is(e, c) {
			t.Errorf("code %d: error %q, hint %q", c, e, e.Hint())
		}
	}
}

// Observe: what the driver does not tell is unknown, a GPU that hangs is asked once, and costs no other.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, hung := card("GPU-0", 0), card("GPU-1", 0)
		busy.does = &Activity{Utilization: 97, Temperature: 71, Power: 389_400, PowerLimit: -1}
		s := newSession(&scripted{gpus: []*scriptedGPU{busy, hung, card("GPU-2", 0)}})
		ds, err := s.List()
		must.OK(t, err)
		hung.silent = make(chan struct{})
		defer close(hung.silent)
		start := time.Now()
		for range 3 {
			s.Observe(ds)
		}
		if took := time.Since(start); took != s.limit {
			t.Errorf("it took %v, want %v once", took, s.limit)
		}
		if ds[0].Activity != *busy.does || ds[1].Activity != unobserved || ds[2].Activity != unobserved {
			t.Errorf("got %+v, %+v, %+v", ds[0].Activity, ds[1].Activity, ds[2].Activity)
		}
	})
}
