package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Command is a queued command of the existing etcd-manager. Its
// etcd-manager-ctl writes them; the only kind is a restore.
type Command struct {
	// Name is the name of its directory below control/.
	Name string
	At   time.Time
	// Backup is the backup to restore, Spec what the cluster shall be then; its
	// fields are zero where the command does not say.
	Backup string
	Spec   SpecFile
}

// commandName returns the name of the command whose file key is.
func commandName(key string) (string, bool) {
	dir, ok := strings.CutSuffix(key, "/"+commandFile)
	if !ok {
		return "", false
	}
	return child(dir, controlPrefix)
}

func parseCommand(key string, b []byte) (Command, error) {
	name, _ := commandName(key)
	f, err := parseFields(key, b)
	if err != nil {
		return Command{}, err
	}
	nanos, err := f.integer("timestamp")
	if err != nil {
		return Command{}, err
	}
	c := Command{Name: name, At: time.Unix(0, nanos).UTC()}
	restore, ok, err := f.object("restoreBackup")
	if err != nil {
		return Command{}, err
	}
	if !ok {
		return Command{}, garbage(key, "it has no known request")
	}
	if c.Backup, err = restore.text("backup"); err != nil {
		return Command{}, err
	}
	if err := checkName(c.Backup); err != nil {
		return Command{}, garbage(key, "the field backup: %v", err)
	}
	if spec, ok, err := restore.object("clusterSpec"); err != nil {
		return Command{}, err
	} else if ok {
		if c.Spec, err = spec.spec(); err != nil {
			return Command{}, err
		}
	}
	return c, nil
}

// formatCommand returns a command as the existing etcd-manager's protojson
// reads it: unset fields are left out, and there are none that it does not know,
// since it refuses those.
func formatCommand(c Command) ([]byte, error) {
	type spec struct {
		MemberCount int    `json:"memberCount,omitempty"`
		EtcdVersion string `json:"etcdVersion,omitempty"`
	}
	type restore struct {
		ClusterSpec *spec  `json:"clusterSpec,omitempty"`
		Backup      string `json:"backup"`
	}
	r := restore{Backup: c.Backup}
	if c.Spec != (SpecFile{}) {
		r.ClusterSpec = &spec{MemberCount: c.Spec.MemberCount}
		if !c.Spec.EtcdVersion.IsZero() {
			r.ClusterSpec.EtcdVersion = c.Spec.EtcdVersion.String()
		}
	}
	return json.Marshal(struct {
		Timestamp     string  `json:"timestamp"`
		RestoreBackup restore `json:"restoreBackup"`
	}{strconv.FormatInt(c.At.UnixNano(), 10), r})
}

// maxCommands is how many commands of one second PutCommand finds room for.
const maxCommands = 100

// PutCommand queues a command in the format of the existing etcd-manager, and
// returns it with its name. Name is not checked: it is made from At. Where the
// existing tool would write over another command of the same second, this takes
// the next sequence number. A second call with the same command is success.
func (s *Store) PutCommand(ctx context.Context, c Command) (Command, error) {
	switch {
	case c.At.UnixNano() <= 0:
		return Command{}, fmt.Errorf("queue command: the time %s is not possible", c.At)
	case c.Spec.MemberCount < 0:
		return Command{}, fmt.Errorf("queue command: the member count is %d", c.Spec.MemberCount)
	}
	if err := checkName(c.Backup); err != nil {
		return Command{}, fmt.Errorf("queue command: backup: %w", err)
	}
	b, err := formatCommand(c)
	if err != nil {
		return Command{}, fmt.Errorf("queue command: %w", err)
	}
	c.At = c.At.UTC()
	for n := range maxCommands {
		c.Name = fmt.Sprintf("%s-%06d", c.At.Format(time.RFC3339), n)
		key := controlPrefix + c.Name + "/" + commandFile
		made, err := s.Create(ctx, key, b)
		if err == nil && !made {
			var present []byte
			present, err = s.Get(ctx, key)
			made = err == nil && string(present) == string(b)
			if errors.Is(err, ErrAbsent) || errors.Is(err, ErrGarbage) {
				// Somebody's, gone or unreadable: the next number is as good.
				err = nil
			}
		}
		if err != nil {
			return Command{}, fmt.Errorf("queue command: %w", err)
		}
		if made {
			s.announce(ctx)
			return c, nil
		}
	}
	return Command{}, fmt.Errorf("queue command: there already are %d of the second %s", maxCommands,
		c.At.Format(time.RFC3339))
}

// DeleteCommand removes a command. That there is none is success.
func (s *Store) DeleteCommand(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("delete command: %w", err)
	}
	dir := controlPrefix + name
	if err := s.Delete(ctx, dir+"/"+commandFile); err != nil {
		return err
	}
	return s.prune(ctx, dir)
}

func sortCommands(all []Command) {
	slices.SortFunc(all, func(a, b Command) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
}
