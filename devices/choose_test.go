package devices

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// host returns four GPUs: 80, 24, 80 (lost) and 40 GiB, with 60, 20, 0 and 40 GiB free.
func host() []Device {
	device := func(i int, name, uuid string, total, free uint64) Device {
		return Device{Index: i, Name: name, UUID: uuid, GPUInstance: -1, ComputeInstance: -1, HasMemory: true, Total: total,
			Free: free, Used: total - free, KnowsProcesses: true}
	}
	ds := []Device{
		device(0, "NVIDIA A100-SXM4-80GB", "GPU-aa11", 80*gib, 60*gib),
		device(1, "NVIDIA GeForce RTX 4090", "GPU-aa22", 24*gib, 20*gib),
		device(2, "NVIDIA A100-SXM4-80GB", "GPU-bb33", 80*gib, 80*gib),
		device(3, "NVIDIA A100-SXM4-40GB", "GPU-cc44", 40*gib, 40*gib),
	}
	ds[2].Reason = "GPU is lost"
	return ds
}

// migHost returns a GPU with MIG on, its two instances and a plain GPU.
func migHost() []Device {
	ds := host()[:1]
	ds[0].MIG, ds[0].Reason = MIGParent, "MIG is on: only its instances can be used"
	for i := range 2 {
		d := host()[0]
		d.MIG, d.UUID, d.Parent, d.GPUInstance, d.ComputeInstance = MIGInstance, fmt.Sprintf("MIG-dd%d",
			i), "GPU-aa11", 7+i, 0
		d.Total, d.Free = 20*gib, uint64(20-i)*gib
		ds = append(ds, d)
	}
	return append(ds, host()[1])
}

func str(s string) *string { return &s }

func TestChoose(t *testing.T) {
	held := host()
	held[0].Reservations = []Reservation{{ID: "x-1", Bytes: 30 * gib, Outstanding: 20 * gib, Share: true, PID: 77,
		User: "ada", Command: "python"}}
	exclusive := host()
	exclusive[0].Reservations = []Reservation{{ID: "x-1", Bytes: 30 * gib, Outstanding: 20 * gib, PID: 77, User: "ada",
		Command: "python"}}
	exclusiveMode := host()[:1]
	exclusiveMode[0].Mode = ModeExclusiveProcess
	exclusiveMode[0].Reservations = held[0].Reservations
	type request = Request
	for _, tt := range []struct {
		name string
		ds   []Device
		r    request
		want string // UUIDs, or "!" and a part of the error
	}{
		{"best fit takes the smallest", host(), request{Bytes: 10 * gib}, "GPU-aa22"},
		{"best fit takes the next that fits", host(), request{Bytes: 30 * gib}, "GPU-cc44"},
		{"most free", host(), request{Bytes: 10 * gib, Policy: MostRoom}, "GPU-aa11"},
		{"first", host(), request{Bytes: 30 * gib, Policy: First}, "GPU-aa11"},
		{"nothing needed is something", host(), request{}, "GPU-aa22"},
		{"exactly the free memory", host(), request{Bytes: 60 * gib}, "GPU-aa11"},
		{"a byte more", host(), request{Bytes: 60*gib + 1},
			"!GPU 0 (NVIDIA A100-SXM4-80GB) comes closest with 60.00 GiB, 1 B short"},
		{"the margin counts", host(), request{Bytes: 60 * gib, Margin: gib},
			"!no GPU has 61.00 GiB available: GPU 0 (NVIDIA A100-SXM4-80GB) comes closest with 60.00 GiB, 1.00 GiB short"},
		{"a sum that overflows fits nowhere", host(), request{Bytes: ^uint64(0), Margin: 5}, "!no GPU has"},
		{"min free", host(), request{Bytes: gib, MinFree: 50 * gib}, "GPU-aa11"},
		{"two", host(), request{Bytes: 10 * gib, Count: 2}, "GPU-aa22,GPU-cc44"},
		{"four", host(), request{Bytes: gib, Count: 4},
			"!only 3 of 4 GPUs have 1.00 GiB available: GPU 2 cannot be used: GPU is lost"},
		{"type", host(), request{Bytes: gib, Type: regexp.MustCompile("(?i)a100.*80")}, "GPU-aa11"},
		{"no such type", host(), request{Bytes: gib, Type: regexp.MustCompile("H100")}, "!not of the wanted type"},
		{"exclude by index", host(), request{Bytes: gib, Exclude: []string{"1"}}, "GPU-cc44"},
		{"an index is no part of a name", host(), request{Bytes: gib, Exclude: []string{"4090"}}, "GPU-aa22"},
		{"exclude by UUID", host(), request{Bytes: gib, Exclude: []string{"GPU-aa22", "GPU-cc"}}, "GPU-aa11"},
		{"exclude by name", host(), request{Bytes: gib, Exclude: []string{"rtx", "40gb"}}, "GPU-aa11"},
		{"all excluded", host(), request{Bytes: gib, Exclude: []string{"NVIDIA"}}, "!GPU 0 is excluded; GPU 1 is excluded"},
		{"no GPU at all", nil, request{Bytes: gib}, "!no GPU has 1.00 GiB available: there is none"},

		{"visible by index", host(), request{Bytes: gib, Visible: str("0")}, "GPU-aa11"},
		{"visible in its order", host(), request{Bytes: gib, Visible: str("3,1"), Policy: First}, "GPU-cc44"},
		{"visible by UUID", host(), request{Bytes: gib, Visible: str("GPU-cc44")}, "GPU-cc44"},
		{"UUIDs then numbers", host(), request{Bytes: gib, Visible: str("GPU-cc44,1,0")}, "GPU-cc44"},
		{"numbers then UUIDs", host(), request{Bytes: gib, Visible: str("3,GPU-aa22")}, "GPU-cc44"},
		{"twice the same number", host(), request{Bytes: gib, Visible: str("0,3,0")}, "!not in CUDA_VISIBLE_DEVICES"},
		{"twice the same UUID", host(), request{Bytes: gib, Visible: str("GPU-cc44,GPU-CC44")},
			"!not in CUDA_VISIBLE_DEVICES"},
		{"a UUID in upper case", host(), request{Bytes: gib, Visible: str("GPU-CC44")}, "GPU-cc44"},
		{"space before a number", host(), request{Bytes: gib, Visible: str(" 0")}, "GPU-aa11"},
		{"space after a comma", host(), request{Bytes: gib, Visible: str("3,\t1")}, "GPU-aa22"},
		{"space before a UUID hides", host(), request{Bytes: gib, Visible: str(" GPU-cc44")}, "!not in CUDA_VISIBLE_DEVICES"},
		{"space before a second UUID hides it", host(), request{Bytes: gib, Visible: str("GPU-cc44, GPU-aa22")}, "GPU-cc44"},
		{"a sign", host(), request{Bytes: gib, Visible: str("+1")}, "GPU-aa22"},
		{"minus nothing", host(), request{Bytes: gib, Visible: str("-0")}, "GPU-aa11"},
		{"a number of more than 32 bits", host(), request{Bytes: gib, Visible: str("4294967297")}, "GPU-aa22"},
		{"a number of more than 64 bits", host(), request{Bytes: gib, Visible: str("18446744073709551617")},
			"!not in CUDA_VISIBLE_DEVICES"},
		{"a lower-case gpu-", host(), request{Bytes: gib, Visible: str("gpu-cc44")}, "!not in CUDA_VISIBLE_DEVICES"},
		{"hyphens do not matter", host(), request{Bytes: gib, Visible: str("GPU-c-c44")}, "GPU-cc44"},
		{"what follows a whole UUID does not matter", host(), request{Bytes: gib, Visible: str("GPU-cc44/0/0")}, "GPU-cc44"},
		{"what follows the start of one does", host(), request{Bytes: gib, Visible: str("GPU-cc4z")},
			"!not in CUDA_VISIBLE_DEVICES"},
		{"leading digits count: 1a", host(), request{Bytes: gib, Visible: str("1a")}, "GPU-aa22"},
		{"leading digits count: 0x1", host(), request{Bytes: gib, Visible: str("0x1")}, "GPU-aa11"},
		{"leading digits count: 1.0", host(), request{Bytes: gib, Visible: str("1.0")}, "GPU-aa22"},
		{"leading digits count: 3 1", host(), request{Bytes: gib, Visible: str("3 1")}, "GPU-cc44"},
		{"visible by the start of a UUID", host(), request{Bytes: gib, Visible: str("GPU-c")}, "GPU-cc44"},
		{"an ambiguous start ends the list", host(), request{Bytes: gib, Visible: str("GPU-a,3")},
			"!GPU 0 is not in CUDA_VISIBLE_DEVICES"},
		{"a wrong entry ends the list", host(), request{Bytes: gib, Visible: str("3,9,1")}, "GPU-cc44"},
		{"empty hides all", host(), request{Bytes: gib, Visible: str("")}, "!not in CUDA_VISIBLE_DEVICES"},
		{"-1 hides all", host(), request{Bytes: gib, Visible: str("-1,0")}, "!not in CUDA_VISIBLE_DEVICES"},
		{"NoDevFiles hides all", host(), request{Bytes: gib, Visible: str("NoDevFiles")}, "!not in CUDA_VISIBLE_DEVICES"},
		{"visible but lost", host(), request{Bytes: gib, Visible: str("2")}, "!GPU 2 cannot be used: GPU is lost"},

		{"MIG parents are never offered", migHost()[:1], request{Bytes: gib}, "!GPU 0 cannot be used: MIG is on"},
		{"the fuller instance fits best", migHost(), request{Bytes: gib}, "MIG-dd1"},
		{"MIG by its UUID", migHost(), request{Bytes: gib, Visible: str("MIG-dd0")}, "MIG-dd0"},
		{"MIG by its old name", migHost(), request{Bytes: gib, Visible: str("MIG-GPU-aa11/8/0")}, "MIG-dd1"},
		{"a MIG parent's index is its first instance", migHost(), request{Bytes: gib, Visible: str("0")}, "MIG-dd0"},
		{"a MIG parent's UUID is its first instance", migHost(), request{Bytes: gib, Visible: str("GPU-aa11")}, "MIG-dd0"},
		{"several exclude MIG", migHost(), request{Bytes: gib, Count: 2}, "!of which CUDA shows a process one only"},

		{"a held GPU is passed over", exclusive, request{Bytes: 41 * gib}, "!GPU 0 is held by process 77 (ada, python)"},
		{"also when sharing, if its holder does not", exclusive, request{Bytes: 50 * gib, Share: true}, "!GPU 0 is held by"},
		{"also when its holder shares and this one does not", held, request{Bytes: 50 * gib}, "!GPU 0 is held by"},
		{"both share and fit", held, request{Bytes: 40 * gib, Share: true}, "GPU-aa11"},
		{"both share and fit, policy first", held, request{Bytes: 40 * gib, Share: true, Policy: First}, "GPU-aa11"},
		{"both share, a byte too much", held, request{Bytes: 40*gib + 1, Share: true},
			"!comes closest with 40.00 GiB, 1 B short"},
		{"no second sharer in exclusive-process mode", exclusiveMode, request{Bytes: gib, Share: true}, "!GPU 0 is held by"},
		{"one's own reservation does not count", exclusive, request{Bytes: 60 * gib, Held: "x-1"}, "GPU-aa11"},
	} {
		before := fmt.Sprint(tt.ds)
		chosen, err := Choose(tt.ds, tt.r)
		var uuids []string
		for _, d := range chosen {
			uuids = append(uuids, d.UUID)
		}
		if fmt.Sprint(tt.ds) != before {
			t.Errorf("%s: the devices were changed", tt.name)
		}
		wantErr, fails := strings.CutPrefix(tt.want, "!")
		switch {
		case fails && (err == nil || !strings.Contains(err.Error(), wantErr)):
			t.Errorf("%s: chose %v, error %v, want error %q", tt.name, uuids, err, wantErr)
		case !fails && (err != nil || strings.Join(uuids, ",") != tt.want):
			t.Errorf("%s: chose %v, error %v, want %s", tt.name, uuids, err, tt.want)
		}
		var no *NoFit
		if fails && !errors.As(err, &no) {
			t.Errorf("%s: the error is no NoFit", tt.name)
		}
	}
}

func TestVisibleNotes(t *testing.T) {
	if v := ParseVisible("0,bogus", host(), false); len(v.Notes) != 2 ||
		!strings.Contains(v.Notes[0], "several models") || !strings.Contains(v.Notes[1], `"bogus" is not a number`) {
		t.Errorf("notes %q", v.Notes)
	}
	if v := ParseVisible("0", host(), false); len(v.Notes) != 1 ||
		!strings.Contains(v.Notes[0], "taken for GPU 0 (NVIDIA A100-SXM4-80GB), as nvidia-smi counts") {
		t.Errorf("notes %q", v.Notes)
	}
	if v := ParseVisible("0", host(), true); len(v.Notes) != 0 {
		t.Errorf("notes %q", v.Notes)
	}
	if v := ParseVisible("0,0", host(), true); len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "names GPU 0 again") ||
		v.Indexes != nil {
		t.Errorf("indexes %v, notes %q", v.Indexes, v.Notes)
	}
	same := slices.Concat(host()[:1], host()[2:3])
	if v := ParseVisible("0,2", same, false); len(v.Notes) != 0 || !slices.Equal(v.Indexes, []int{0, 1}) {
		t.Errorf("notes %q, indexes %v", v.Notes, v.Indexes)
	}
}

func FuzzParseVisible(f *testing.F) {
	for _, s := range []string{"", "0", "1,0", "GPU-aa11", "MIG-GPU-aa11/7/0", "MIG-,GPU-", ",", "٣", "-0",
		"99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ds := migHost()
		v := ParseVisible(s, ds, false)
		seen := map[int]bool{}
		for _, i := range v.Indexes {
			if i < 0 || i >= len(ds) || seen[i] {
				t.Errorf("%q: places %v", s, v.Indexes)
			}
			seen[i] = true
		}
	})
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 20 * gib: "20.00 GiB",
		^uint64(0): "16.00 EiB"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %q, want %q", n, got, want)
		}
	}
}
