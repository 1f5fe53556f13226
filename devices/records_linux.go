package devices

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A book is what the state directory says of reservations at one moment.
type book struct {
	records []record
	removed []marks  // reservations that live, and whose files are gone
	stale   []string // files that nobody has locked
}

// marks is the marks on one file.
type marks []int64

// A freed is the content of a freed-* file.
type freed struct {
	UID uint32 `json:"uid"` // of the reservation's owner
}

// book reads the live reservations. What cannot be read as one is passed over: it names no device.
func (s *State) book() (*book, error) {
	names, err := s.names(holdPrefix)
	if err != nil {
		return nil, err
	}
	given, err := s.names(freedPrefix)
	if err != nil {
		return nil, err
	}
	b := &book{}
	known := map[int64]bool{} // marks of files that are there, or were given up
	for _, name := range given {
		id := strings.TrimPrefix(name, freedPrefix)
		if uid, ok := s.freedBy(id); ok {
			known[ownerMark(holdPrefix+id, uid)] = true
		}
		if !slices.Contains(names, holdPrefix+id) {
			b.stale = append(b.stale, name)
		}
	}
	for _, name := range names {
		fd, st := s.look(name)
		if fd < 0 {
			b.stale = append(b.stale, name)
			continue
		}
		f := os.NewFile(uintptr(fd), name)
		r := record{ID: strings.TrimPrefix(name, holdPrefix)}
		mark := ownerMark(name, st.Uid)
		if json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(&r) == nil && !known[mark] {
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

// freedBy returns whose reservation a freed-* file gives up: its own user's, or any when it is root's.
func (s *State) freedBy(id string) (uid uint32, ok bool) {
	f, err := s.open(freedPrefix+id, os.O_RDONLY)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	var st unix.Stat_t
	var c freed
	if unix.Fstat(int(f.Fd()), &st) != nil ||
		json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(&c) != nil {
		return 0, false
	}
	return c.UID, st.Uid == c.UID || st.Uid == 0
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

// Free gives up a reservation, though processes still run under it: their devices are offered to others at once, and
// what memory they have counts as used. Only its owner, and root, can do that. It returns the process numbers that
// still have the reservation, as far as this user can see them.
func (s *State) Free(id string) ([]int, error) {
	name := holdPrefix + id
	if id == "" || strings.ContainsAny(id, "/\x00") {
		return nil, fmt.Errorf("reservation %q: no such reservation", id)
	}
	fd, st := s.look(name)
	if fd < 0 {
		return nil, fmt.Errorf("reservation %s: no such reservation in %s", plain(id), s.dir)
	}
	unix.Close(fd)
	if uid := os.Geteuid(); uid != 0 && uint32(uid) != st.Uid {
		return nil, fmt.Errorf("reservation %s: it is another user's: only its owner and root can give it up", plain(id))
	}
	d, err := s.at()
	if err != nil {
		return nil, fmt.Errorf("reservation %s: %w", plain(id), err)
	}
	f, temp, err := d.temp()
	if err != nil {
		return nil, fmt.Errorf("reservation %s: %w", plain(id), err)
	}
	err = errors.Join(json.NewEncoder(f).Encode(freed{st.Uid}), f.Chmod(0o644), f.Close())
	if err == nil {
		err = d.rename(temp, freedPrefix+id)
	}
	if err != nil {
		d.remove(temp)
		return nil, fmt.Errorf("reservation %s: %w", plain(id), err)
	}
	return havingOpen(&st), nil
}
