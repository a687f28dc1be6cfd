package forward

import (
	"time"
)

// first returns when the first timer is due, or zero.
func (h timers) first() time.Time {
	if len(h) == 0 {
		return time.Time{}
	}
	return h[0].due
}

func (h *timers) set(fl *flight, due time.Time) {
	fl.due = due
	switch {
	case due.IsZero():
		h.remove(fl)
		return
	case fl.place == 0:
		*h = append(*h, fl)
		fl.place = len(*h)
	}
	h.down(h.up(fl.place - 1))
}

func (h *timers) remove(fl *flight) {
	if fl.place == 0 {
		return
	}
	i, last := fl.place-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	fl.place = 0
	if i < last {
		h.down(h.up(i))
	}
}

func (h timers) up(i int) int {
	for i > 0 && h[i].due.Before(h[(i-1)/2].due) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (h timers) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].due.Before(h[least].due) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h timers) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

// timers is a heap of flights by due time. Each flight knows its place, counted from 1.
type timers []*flight
