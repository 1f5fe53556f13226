package devices

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
)

// A book is what the state directory says of reservations at one moment.
type book struct {
	records []record
	removed []marks  // reservations that live, and whose files are gone
	stale   []string // files that nobody has locked
}

// marks is the marks on one file.
type marks []int64

// book reads the live reservations. What cannot be read as one is passed over: it names no device.
func (s *State) book() (*book, error) {
	names, err := s.names(holdPrefix)
	if err != nil {
		return nil, err
	}
	b := &book{}
	known := map[int64]bool{} // marks of files that are there
	for _, name := range names {
		f, st := s.look(name)
		if f == nil {
			b.stale = append(b.stale, name)
			continue
		}
		r := record{ID: strings.TrimPrefix(name, holdPrefix)}
		mark := ownerMark(name, st.Uid)
		if json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(&r) == nil {
			r.holder = s.holderOf(&r, &st)
			b.records = append(b.records, r)
		}
		known[mark] = true
		f.Close()
	}
	for _, on := range readLocks() {
		if !slices.ContainsFunc(on, func(m int64) bool { return known[m] }) {
			b.removed = append(b.removed, on)
		}
	}
	return b, nil
}

// attach hangs the reservations on the devices that they hold. held is the one that the caller runs under, or "".
func (b *book) attach(s *State, ds []Device, held string) {
	attach(ds, b.records, ownTree())
	if len(b.removed) == 0 {
		return
	}
	own := ownerMark(holdPrefix+held, uint32(os.Geteuid()))
	for i := range ds {
		mark := deviceMark(s.mark, ds[i].UUID)
		for _, on := range b.removed {
			if ds[i].UUID == "" || !slices.Contains(on, mark) {
				continue
			}
			r := Reservation{Removed: true}
			if held != "" && slices.Contains(on, own) {
				r.ID = held
			}
			ds[i].Reservations = append(ds[i].Reservations, r)
		}
	}
}

// Attach hangs the live reservations on the devices that they hold.
func (s *State) Attach(ds []Device) error {
	b, err := s.book()
	if err != nil {
		return err
	}
	b.attach(s, ds, os.Getenv(HeldVariable))
	return nil
}
