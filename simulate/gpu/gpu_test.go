package gpu

import "testing"

func TestFind(t *testing.T) {
	if d, err := Find(""); err != nil || d != Default() || !d.Measured {
		t.Errorf(`Find("") is %v, %v: want the device that was measured`, d, err)
	}
	for _, d := range Known() {
		for _, name := range []string{d.ID, d.Name} {
			if got, err := Find(name); err != nil || got != d {
				t.Errorf("Find(%q) is %v, %v", name, got, err)
			}
		}
		if d.Memory < 7<<30 || // a card of 8 GB has 7.75 GiB
			d.Multiprocessors < 20 || !d.Capability.AtLeast(7, 0) {
			t.Errorf("%s: %+v", d.ID, d)
		}
	}
	if _, err := Find("h300"); err == nil {
		t.Error("h300 is found")
	}
}

// parseChosenWorkspaceSize in CublasHandlePool.cpp, and the table of compute capabilities in the CUDA programming
// guide.
func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		id      string
		threads int
		blas    int64
	}{{"h200", 2048, 33554432}, {"b200", 2048, 8519680}, {"a100-80gb", 2048, 8519680}, {"a10g", 1536, 8519680}, {"l4",
		1536, 8519680},
		{"rtx-5090", 1536, 8519680}, {"t4", 1024, 8519680}, {"v100-16gb", 2048, 8519680}} {
		d, err := Find(c.id)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Capability.ResidentThreads(); got != c.threads || d.BLASWorkspace != c.blas || d.LtWorkspace != 1<<20 {
			t.Errorf("%s: %d threads, cuBLAS keeps %d and cublasLt %d", c.id, got, d.BLASWorkspace, d.LtWorkspace)
		}
	}
}
