package volumes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A cloud answers from a script: list says what each question finds.
type cloud struct {
	list     func(n int) ([]Volume, error)
	attach   func(n int, v Volume) (Volume, error)
	listings int
	attached []string
}

func (c *cloud) Find(context.Context) ([]Volume, error) {
	c.listings++
	return c.list(c.listings)
}

func (c *cloud) Attach(_ context.Context, v Volume) (Volume, error) {
	c.attached = append(c.attached, v.ID)
	return c.attach(len(c.attached), v)
}

func (c *cloud) Address(context.Context) (string, error) { return "10.0.0.1", nil }
func (c *cloud) Nodes(context.Context) ([]Node, error)   { return nil, nil }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func here(v Volume) Volume {
	v.Machine, v.Here = "self", true
	return v
}

func acquired(t *testing.T, c *cloud, want string, attached ...string) (reported []string, took time.Duration) {
	t.Helper()
	begin := time.Now()
	v, err := Acquire(t.Context(), c, quiet(), func(why string) { reported = append(reported, why) })
	if err != nil || v.ID != want || !v.Here {
		t.Fatalf("acquired %+v, %v; want %s", v, err, want)
	}
	if !slices.Equal(c.attached, attached) {
		t.Fatalf("attached %q, want %q", c.attached, attached)
	}
	return reported, time.Since(begin)
}

func TestTheAttachedVolumeIsPreferred(t *testing.T) {
	c := &cloud{list: func(int) ([]Volume, error) {
		return []Volume{{ID: "1", Node: "a"}, here(Volume{ID: "3", Node: "c"}), here(Volume{ID: "2", Node: "b"})}, nil
	}}
	reported, _ := acquired(t, c, "2")
	if !slices.Equal(reported, []string{""}) {
		t.Errorf("reported %q", reported)
	}
}

func TestALostRaceLeadsToTheNextVolume(t *testing.T) {
	c := &cloud{
		list: func(int) ([]Volume, error) {
			return []Volume{{ID: "1", Node: "a"}, {ID: "2", Node: "b", Machine: "other"}, {ID: "3", Node: "c"}}, nil
		},
		attach: func(n int, v Volume) (Volume, error) {
			if n == 1 {
				return v, ErrTaken
			}
			return here(v), nil
		},
	}
	acquired(t, c, "3", "1", "3")
}

func TestAVolumeOfADyingMachineIsTakenWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		const dying = 4 * time.Minute
		c := &cloud{
			list: func(int) ([]Volume, error) {
				v := Volume{ID: "vol-1", Node: "a", Machine: "i-old"}
				if time.Since(begin) >= dying {
					v.Machine = ""
				}
				return []Volume{v}, nil
			},
			attach: func(_ int, v Volume) (Volume, error) { return here(v), nil },
		}
		reported, took := acquired(t, c, "vol-1", "vol-1")
		if took < dying || took > dying+8*time.Second {
			t.Errorf("taken after %s", took)
		}
		if c.listings > 130 {
			t.Errorf("%d questions in four minutes", c.listings)
		}
		if len(reported) != 2 || !strings.Contains(reported[0], "vol-1 is attached to i-old") || reported[1] != "" {
			t.Errorf("reported %q", reported)
		}
	})
}

func TestAThrottlingCloudIsAskedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		c := &cloud{list: func(int) ([]Volume, error) {
			if time.Since(begin) < 10*time.Minute {
				return nil, errors.New("RequestLimitExceeded")
			}
			return []Volume{here(Volume{ID: "1", Node: "a"})}, nil
		}}
		reported, took := acquired(t, c, "1")
		if c.listings > 50 || took > 11*time.Minute {
			t.Errorf("%d questions in %s", c.listings, took)
		}
		if len(reported) != 2 || !strings.Contains(reported[0], "RequestLimitExceeded") {
			t.Errorf("reported %q", reported)
		}
	})
}

// An attachment that ended in an error may have been made: another volume is
// not attached before the cloud has been asked.
func TestNeverMoreThanOneAfterAnUnclearAttachment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{
			list: func(n int) ([]Volume, error) {
				v := Volume{ID: "1", Node: "b"}
				if n > 2 {
					v = here(v)
				}
				if n == 2 { // a volume that sorts first comes meanwhile
					return []Volume{v, {ID: "0", Node: "a"}}, nil
				}
				return []Volume{v, {ID: "2", Node: "c"}}, nil
			},
			attach: func(int, Volume) (Volume, error) { return Volume{}, errors.New("connection reset") },
		}
		acquired(t, c, "1", "1", "1")
	})
}

// A volume that is between free and attached is not tried, and is reported. If this
// machine may have asked for it, no other one is tried either.
func TestABusyVolumeIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := func(n int) ([]Volume, error) {
			v := Volume{ID: "1", Node: "b"}
			switch {
			case n < 3:
			case n == 3:
				v.Busy = "has the status attaching"
			default:
				v = here(v)
			}
			return []Volume{v, {ID: "2", Node: "c"}}, nil
		}
		c := &cloud{list: list, attach: func(int, Volume) (Volume, error) { return Volume{}, errors.New("timeout") }}
		reported, _ := acquired(t, c, "1", "1", "1")
		if len(reported) != 3 || !strings.Contains(reported[1], "no volume is free: 1 has the status attaching;") {
			t.Errorf("reported %q", reported)
		}
		c = &cloud{
			list: func(int) ([]Volume, error) {
				return []Volume{{ID: "1", Node: "b", Busy: "has the status reserved"}, {ID: "2", Node: "c"}}, nil
			},
			attach: func(_ int, v Volume) (Volume, error) { return here(v), nil },
		}
		acquired(t, c, "2", "2")
	})
}

// A volume that is on its way to this machine was perhaps asked for before the
// program began; one that is not on its way here is in nobody's way.
func TestAMovingVolumeIsWaitedForAndAForeignOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{list: func(n int) ([]Volume, error) {
			v := Volume{ID: "2", Node: "b", Busy: "has the status attaching", Moving: true}
			if n > 3 {
				v = here(Volume{ID: "2", Node: "b"})
			}
			return []Volume{{ID: "1", Node: "a"}, v}, nil
		}}
		acquired(t, c, "2")
		c = &cloud{
			list: func(n int) ([]Volume, error) {
				v := Volume{ID: "1", Node: "a"}
				if n > 1 {
					v.Busy, v.Foreign = "has the status reserved", true
				}
				return []Volume{v, {ID: "2", Node: "b"}}, nil
			},
			attach: func(n int, v Volume) (Volume, error) {
				if n == 1 {
					return v, errors.New("connection reset")
				}
				return here(v), nil
			},
		}
		acquired(t, c, "2", "1", "2")
	})
}

// A volume that is refused is not in the way of the next one. Where all of them
// are, the reason is reported, and the cloud is asked rarely.
func TestARefusedVolumeLeadsToTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		c := &cloud{
			list: func(int) ([]Volume, error) { return []Volume{{ID: "1", Node: "a"}, {ID: "2", Node: "b"}}, nil },
			attach: func(_ int, v Volume) (Volume, error) {
				if v.ID == "1" || time.Since(begin) < 10*time.Minute {
					return v, fmt.Errorf("%w: reason %s", ErrRefused, v.ID)
				}
				return here(v), nil
			},
		}
		var reported []string
		v, err := Acquire(t.Context(), c, quiet(), func(why string) { reported = append(reported, why) })
		if err != nil || v.ID != "2" || len(c.attached) > 100 || c.attached[0] != "1" || c.attached[1] != "2" {
			t.Errorf("%+v, %v, attached %q", v, err, c.attached)
		}
		if len(reported) != 2 || !strings.Contains(reported[0], "reason 1") {
			t.Errorf("reported %q", reported)
		}
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("enough")
		time.AfterFunc(time.Minute, func() { cancel(reason) })
		c := &cloud{list: func(int) ([]Volume, error) { return nil, nil }}
		var reported []string
		_, err := Acquire(ctx, c, quiet(), func(why string) { reported = append(reported, why) })
		if !errors.Is(err, reason) || !strings.Contains(reported[0], "--volume-tag") {
			t.Errorf("%v, reported %q", err, reported)
		}
	})
}
