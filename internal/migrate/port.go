package migrate

import (
	"context"
	"errors"
	"time"
)

// bindPatience is how long node-dns may take until it has an address that is free: it tries each second.
const bindPatience = 5 * time.Second

// takePort stops a unit, whose addresses node-dns then binds.
func (a Applier) takePort(ctx context.Context, s Step) error {
	if err := systemctl(ctx, "stop", s.Unit); err != nil {
		return err
	}
	return await(ctx, "node-dns to listen on port 53", bindPatience, func() (bool, error) {
		status, err := fetchStatus(ctx)
		if err != nil {
			return false, err
		}
		for _, at := range s.At {
			for _, l := range status.Listeners {
				if l.Address == at.String() && !(l.UDP && l.TCP) {
					return false, errors.New(l.Address + ": " + l.Error)
				}
			}
		}
		return true, nil
	})
}

// givePort stops node-dns, and starts the unit again.
func (a Applier) givePort(ctx context.Context, j *Journal, s Step) error {
	err := systemctl(ctx, "stop", daemonUnit, applyPath, applyUnit)
	if s.WasActive {
		err = errors.Join(err, systemctl(ctx, "start", s.Unit))
	}
	return errors.Join(err, restoreAll(j.Saved))
}
