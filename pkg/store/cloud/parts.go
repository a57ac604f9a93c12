package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
)

// firstBuffer is enough for most control objects.
const firstBuffer = 64 << 10

// A cut says how an upload is cut into parts, which are in memory while they are
// sent, so that one can be sent again.
type cut struct {
	// The first parts are small, and atOnce of them are in memory; the others are
	// large, and one is in memory.
	small, large  int
	first, atOnce int
	// most is the number of parts that the server takes.
	most int
}

// begin reads the first part, or the whole where that is no longer than one.
func (c cut) begin(r io.Reader) (part []byte, whole bool, err error) {
	part = make([]byte, min(firstBuffer, c.small))
	n, err := io.ReadFull(r, part)
	if err == nil {
		part = append(make([]byte, 0, c.small), part...)[:c.small]
		var more int
		more, err = io.ReadFull(r, part[n:])
		n += more
	}
	if ended(err) {
		return part[:n], true, nil
	}
	return part, false, err
}

// ended reports whether io.ReadFull came to the end of its reader. A reader that
// itself fails with io.ErrUnexpectedEOF does not look like that: the store wraps
// the errors of readers, which is why errors.Is must not look into them.
func ended(err error) bool {
	return err == io.EOF || err == io.ErrUnexpectedEOF //nolint:errorlint // see above
}

// A sender sends what a reader holds, cut into parts.
type sender struct {
	cut
	// server takes the parts.
	server string
	// part sends one, again if that is necessary.
	part func(ctx context.Context, number int, content []byte) error
}

// send sends the first part and then what r holds. When it returns, no part is
// under way.
func (s sender) send(ctx context.Context, part []byte, r io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	sending, sendingCtx := errgroup.WithContext(ctx)
	err := s.sendAll(sendingCtx, sending, part, r)
	if err != nil {
		cancel()
	}
	if sendErr := sending.Wait(); err == nil || errors.Is(err, context.Canceled) && sendErr != nil {
		// What was cancelled was so by a part that could not be sent.
		err = sendErr
	}
	cancel()
	return err
}

// sendAll reads parts and has them sent by the group.
func (s sender) sendAll(ctx context.Context, sending *errgroup.Group, part []byte, r io.Reader) error {
	free := make(chan []byte, s.atOnce)
	for range s.atOnce - 1 {
		free <- nil
	}
	for number := 1; ; number++ {
		if number > s.most {
			return fmt.Errorf("it does not fit into the %d parts that %s allows", s.most, s.server)
		}
		content := part
		sending.Go(func() error {
			err := s.part(ctx, number, content)
			free <- content[:cap(content)]
			return err
		})
		if number == s.first {
			if err := s.drain(ctx, free); err != nil {
				return err
			}
			free <- make([]byte, s.large)
		}
		select {
		case part = <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
		if part == nil {
			part = make([]byte, s.small)
		}
		n, err := io.ReadFull(r, part)
		if part = part[:n]; err != nil && !ended(err) {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// drain takes all small buffers back, which ends the sending of them.
func (s sender) drain(ctx context.Context, free <-chan []byte) error {
	for range s.atOnce {
		select {
		case <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
