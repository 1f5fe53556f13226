package devices

import "sync"

// An Activity is what a device does. A figure is -1 where the driver does not tell, as of MIG instances.
type Activity struct {
	Utilization int // percent of the driver's last sampling period, a sixth of a second to a second, with a kernel running
	Temperature int // degrees Celsius
	Power       int // milliwatts
	PowerLimit  int // milliwatts
}

// unobserved is the Activity of a device that nobody asked.
var unobserved = Activity{-1, -1, -1, -1}

// Observe asks what the devices, which s listed, do, and who runs their processes. It is apart from List, for drivers
// take milliseconds to say how much power a GPU draws. A device that does not answer in time is not asked again.
func (s *Session) Observe(ds []Device) {
	var wg sync.WaitGroup
	for i := range ds {
		d := &ds[i]
		for j := range d.Processes {
			p := &d.Processes[j]
			p.User, p.Command = identify(p.PID)
		}
		if d.handle == nil || d.MIG == MIGInstance || s.isDeaf(d.Index) {
			continue
		}
		wg.Go(func() {
			a, err := within(s.limit, func() (Activity, error) { return d.handle.activity(), nil })
			if err != nil {
				s.mu.Lock()
				s.deaf[d.Index] = true
				s.mu.Unlock()
				return
			}
			d.Activity = a
		})
	}
	wg.Wait()
}

func (s *Session) isDeaf(index int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deaf[index]
}
