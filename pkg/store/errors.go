package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Every error of this package that comes from the store, and not from its
// caller's arguments or a cancelled context, is one of these four kinds.
var (
	// ErrAbsent is returned when the store answered and does not hold the object.
	ErrAbsent = errors.New("object is absent")
	// ErrDenied is returned when the store answered that it will not: the
	// credentials are wrong or may not do this, or what is stored may not be changed.
	// Nothing is then known about the object, and to try again is no use.
	ErrDenied = errors.New("store denies access")
	// ErrUnreachable is returned when the store did not answer in time, or broke
	// off. Nothing is then known about the object.
	ErrUnreachable = errors.New("store is unreachable")
	// ErrGarbage is returned when the object is there and cannot be understood.
	ErrGarbage = errors.New("object cannot be read")
)

// errExists is returned by a backend's conditional write when the key is taken.
var errExists = errors.New("object exists")

// An ExistsError is returned by CreateIncarnation to the loser of a race.
type ExistsError struct {
	// Existing is the winner's record.
	Existing cluster.Incarnation
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("incarnation %d exists: token %s, made by %s", e.Existing.Number, e.Existing.Token, e.Existing.By)
}

// garbage returns the error for an object that cannot be understood.
func garbage(key, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", key, ErrGarbage, clip(fmt.Sprintf(format, args...)))
}

// maxText is how much of what somebody else wrote goes into an error.
const maxText = 300

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// classify gives an error of a backend its kind, and takes secrets out of its
// text: all errors of stores come through here.
func classify(what, key string, err error) error {
	if err = kindOfError(what, key, err); err == nil {
		return nil
	}
	return redacted{err}
}

func kindOfError(what, key string, err error) error {
	if key != "" {
		what += " " + key
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrAbsent), errors.Is(err, ErrGarbage), errors.Is(err, errExists), errors.Is(err, ErrUnreachable),
		errors.Is(err, ErrDenied),
		errors.Is(err, context.Canceled), errors.As(err, new(sourceError)):
		return fmt.Errorf("%s: %w", what, err)
	}
	if errors.As(err, new(*fs.PathError)) || errors.As(err, new(*os.LinkError)) {
		return fmt.Errorf("%s: %w", what, localError{err})
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnreachable, err)
}

// A localError is an error of a directory, which says enough by itself: it is
// ErrUnreachable, and does not say so.
type localError struct{ error }

func (e localError) Unwrap() []error { return []error{ErrUnreachable, e.error} }

// A sourceError is an error of the reader that an upload reads from: not the
// store's fault.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }
