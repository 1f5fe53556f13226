package snapshot_test

import (
	"compress/gzip"
	"fmt"
	"log"
	"os"

	"github.com/memestimate/memestimate/snapshot"
)

// What a program held when it ran out of memory, from the file that torch.cuda.memory._dump_snapshot wrote.
func ExampleRead() {
	f, err := os.Open("testdata/oom.pickle.gz")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		log.Fatal(err)
	}
	s, err := snapshot.Read(z, snapshot.Options{})
	if err != nil {
		log.Fatal(err)
	}
	h, err := s.History(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("devices", s.Devices(), "events", s.Events())
	fmt.Println("most allocated", h.Allocated.Bytes, "as PyTorch counts:", s.Figures(0).Allocated)
	fmt.Println("times out of memory", len(h.OOMs), "exact", h.Exact)
	// Output:
	// devices 1 events 44
	// most allocated 1404043264 as PyTorch counts: 1404043264
	// times out of memory 1 exact true
}
